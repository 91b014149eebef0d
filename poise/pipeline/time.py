"""When a schedule's operations run, in exact arithmetic: makespan, both bubbles, memory over time."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from poise.core.errors import ScheduleError
from poise.pipeline.costs import Costs, Durations
from poise.pipeline.graph import Graph, graph_of
from poise.pipeline.memory import PLAIN, Memory, Weights, memory
from poise.pipeline.rows import COPY, OP, Entries, rows_of
from poise.pipeline.schedule import Schedule
from poise.pipeline.walk import walk


class Copied(NamedTuple):
    """The copy that an OFFLOAD or RELOAD (`number` in the graph) starts, which overlaps with the operations."""

    number: int
    start: int
    end: int


@dataclass(frozen=True)
class Timing:
    """A timed schedule. Instants are integers of `scale` ticks to the unit in which the costs were given."""

    graph: Graph
    starts: list[int]
    ends: list[int]
    scale: int
    largest_f: Fraction
    weights: Weights = PLAIN
    copies: tuple[Copied, ...] = ()

    @cached_property
    def makespan(self) -> Fraction:
        """From the first start to the last end over all ranks, in the unit of the costs."""
        return Fraction(max(self.ends, default=0), self.scale)

    @cached_property
    def busy(self) -> list[Fraction]:
        """Time of work on each rank."""
        return [
            Fraction(sum(self.ends[low:high]) - sum(self.starts[low:high]), self.scale) for low, high in self._rows()
        ]

    @cached_property
    def spans(self) -> list[Fraction]:
        """From the first start to the last end of each rank."""
        return [Fraction(self.ends[high - 1] - self.starts[low], self.scale) for low, high in self._rows()]

    @property
    def bubble_global(self) -> Fraction:
        """Makespan − work of the rank that idles most: what a step with a synchronous optimizer loses."""
        return self.makespan - min(self.busy)

    @property
    def bubble_global_fraction(self) -> Fraction:
        """The same as a part of the makespan."""
        return self.bubble_global / self.makespan

    @property
    def bubble_span(self) -> Fraction:
        """The largest (last end − first start − work) of a rank: what is lost when steps may overlap."""
        return max(span - busy for span, busy in zip(self.spans, self.busy, strict=True))

    @property
    def bubble_span_fraction(self) -> Fraction:
        """The same as a part of that rank's span."""
        return max((span - busy, (span - busy) / span) for span, busy in zip(self.spans, self.busy, strict=True))[1]

    @cached_property
    def memory(self) -> Memory:
        """Levels after each operation."""
        return memory(self.graph, self.weights)

    def held(self, rank: int) -> list[tuple[int, Fraction]]:
        """When what a rank holds changes, and to what: full-stage activations from that instant on."""
        low, high = self.graph.first[rank], self.graph.first[rank + 1]
        levels, highest = (each[low:high].tolist() for each in (self.memory.levels, self.memory.highest))
        found, before = [], 0
        for at, (most, level) in enumerate(zip(highest, levels, strict=True), low):
            for instant, now in ((self.starts[at], most), (self.ends[at], level)):
                if now != before:
                    found.append((instant, Fraction(now, self.memory.scale)))
                before = now
        return found

    def _rows(self) -> list[tuple[int, int]]:
        first = self.graph.first
        return [(low, high) for low, high in pairwise(first) if high > low]


def time(schedule: Schedule, costs: Costs | None = None, *, weights: Weights = PLAIN) -> Timing:
    """Run `schedule` with these costs (default: every full-stage operation takes 1, messages nothing).

    A rank computes one operation at a time, in its order; a message leaves when its operation ends, arrives after the
    link's time and occupies no rank. Copies run on their links, one at a time: to the host from when the forward has
    ended, back from the position of RELOAD; OFFLOAD and the backward wait for theirs. A barrier ends `barrier` after
    the last rank has reached it. Raises ScheduleError for a schedule that cannot finish.
    """
    graph = graph_of(schedule)
    durations = (costs or Costs()).at(len(schedule.ranks), schedule.stages, schedule.microbatches)
    rows = rows_of(graph, durations.shared_copy)
    ticks, lags = rows.columns(ticks_of(graph, durations), lags_of(graph, durations), durations.barrier)
    starts, ends, stopped = walk(rows.first, rows.needs, ticks, lags)
    for rank, index in enumerate(stopped):
        if index < rows.first[rank + 1]:
            raise ScheduleError(f"{rows.name(index)} can never start; `check` tells the cycle")
    copies: tuple[Copied, ...] = ()
    if rows.entries is not None:
        starts, ends, copies = _parted(rows.entries, starts, ends)
    return Timing(graph, starts, ends, durations.scale, durations.largest_f, weights, copies)


def _parted(entries: Entries, starts: list[int], ends: list[int]) -> tuple[list[int], list[int], tuple[Copied, ...]]:
    """Starts and ends of the operations and of the copies."""
    role, number = entries.role, entries.number
    ops, copies = np.flatnonzero(role == OP).tolist(), np.flatnonzero(role == COPY).tolist()
    found = tuple(Copied(int(number[at]), starts[at], ends[at]) for at in copies)
    return [starts[at] for at in ops], [ends[at] for at in ops], found


def ticks_of(graph: Graph, durations: Durations) -> list[int]:
    """How long each operation takes; of OFFLOAD and RELOAD, their copies."""
    if durations.even:
        table = np.array(durations.table(), dtype=object)
        found: list[int] = table[graph.kind, graph.stage].tolist()
        return found
    columns = (graph.kind.tolist(), graph.stage.tolist(), graph.microbatch.tolist(), graph.rank.tolist())
    return [durations.of(*each) for each in zip(*columns, strict=True)]


def lags_of(graph: Graph, durations: Durations) -> list[int]:
    """Ticks that the message to each operation takes; 0 where it comes from its own rank."""
    ranks = range(len(graph.first) - 1)
    hops = np.array([[durations.hop(here, there) for there in ranks] for here in ranks], dtype=object)
    found: list[int] = hops[graph.rank, graph.rank[graph.waits]].tolist()
    return found
