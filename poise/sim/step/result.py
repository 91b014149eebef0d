"""The result of a simulated step: operations, transfers, and how long ranks waited for transfers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

from poise.core.units import SECOND
from poise.pipeline.graph import Graph
from poise.pipeline.memory import Memory, memory


class Transfer(NamedTuple):
    """One transfer: requested, on its links from `begin` on, arrived at `end`; in picoseconds."""

    kind: Literal["message", "sync", "gather", "update"]
    what: str
    rank: int
    peer: int
    """The receiving rank of a message; the rank itself for collectives with other pipelines."""
    requested_at: int
    begin: int
    end: int


@dataclass(frozen=True)
class Step:
    """A step with everything in it. Instants are picoseconds, durations seconds."""

    graph: Graph
    starts: list[int]
    ends: list[int]
    transfers: list[Transfer]
    optimizer: list[tuple[int, int]]
    """Of each rank, start and end of its operations."""
    finish: list[int]
    """When each rank has updated weights."""
    waited: list[int]
    """Picoseconds that each rank waited for transfers of results that were there, or of gradients and weights."""

    @property
    def makespan_s(self) -> float:
        """From the first start until the last rank has updated weights."""
        return max(self.finish, default=0) / SECOND

    @cached_property
    def busy_s(self) -> list[float]:
        """Seconds that each rank computes, without its optimizer."""
        return [(sum(self.ends[low:high]) - sum(self.starts[low:high])) / SECOND for low, high in self._rows()]

    @property
    def bubble_s(self) -> float:
        """Makespan less work and optimizer of the rank that idles most."""
        spent = (busy + (end - begin) / SECOND for busy, (begin, end) in zip(self.busy_s, self.optimizer, strict=True))
        return self.makespan_s - min(spent)

    @property
    def exposed_s(self) -> list[float]:
        """Seconds of each rank's waiting that faster links alone would save it there and then.

        Of an operation: from when it could have started, had transfers taken no time, until it did. At the end: all
        but the optimizer. That one rank's wait delays another is that one's bubble, and not counted twice.
        """
        return [each / SECOND for each in self.waited]

    @cached_property
    def memory(self) -> Memory:
        """Activations that each rank holds after each operation."""
        return memory(self.graph)

    def _rows(self) -> list[tuple[int, int]]:
        return list(pairwise(self.graph.first))
