"""A simulated Program: when each task ran."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from poise.core.units import SECOND
from poise.program.index import Index
from poise.sim.links.wiring import Path


class Rate(NamedTuple):
    """A flow of a task has this rate from an instant on; 0 when it is off its links."""

    instant: int
    """Picoseconds."""
    flow: int
    task: int
    path: Path
    rate: float
    """Bytes per picosecond."""


@dataclass(frozen=True)
class Simulated:
    """Instants of each task of `index`, in picoseconds."""

    index: Index
    starts: list[int]
    """Its lane is its own from then on; of a member of a collective, when the last one has come."""
    ends: list[int]
    """Its lane is free again: of a transfer, all its bytes are off the links."""
    ready: list[int]
    """Others can use its results."""
    rates: list[Rate] | None = None
    """All changes in order of time, if they were to be noted."""

    @property
    def makespan_s(self) -> float:
        """From 0 until all results are there."""
        return max(self.ready, default=0) / SECOND

    @cached_property
    def busy_s(self) -> list[float]:
        """Seconds that each rank's lane `compute` works."""
        found = [0] * self.index.program.ranks
        for number, task in enumerate(self.index.tasks):
            if task.lane == "compute":
                found[task.rank] += self.ends[number] - self.starts[number]
        return [each / SECOND for each in found]

    @property
    def bubble_s(self) -> float:
        """Makespan less the work of the rank that computes least."""
        return self.makespan_s - min(self.busy_s, default=0.0)
