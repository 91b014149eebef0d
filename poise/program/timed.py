"""A Program with the instants of its tasks: makespan, what every lane does with its time, rows to draw.

Instants are integers of `scale` ticks to a unit of time. `timed` finds them without contention; whatever else gives a
start and an end for each task, a simulator of links or a run, makes a `Timed` of them too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from poise.program.held import Held, Key, held
from poise.program.index import Index
from poise.program.order import ordered
from poise.program.program import Program
from poise.program.task import Lane, Task
from poise.program.walk import walk


class Interval(NamedTuple):
    """A task and the time that it takes; `number` is its own in the Program's index."""

    lane: Lane
    task: Task
    number: int
    start: int
    end: int


class LaneTime(NamedTuple):
    """The time of a lane, in units: of its tasks, of the rest of the makespan, its first start and its last end."""

    lane: Lane
    tasks: int
    busy: Fraction
    idle: Fraction
    first: Fraction
    last: Fraction


@dataclass(frozen=True)
class Timed:
    """Starts and ends of the tasks of a Program, in the order of its index."""

    program: Program
    starts: Sequence[int]
    ends: Sequence[int]
    scale: int = 1

    @property
    def index(self) -> Index:
        """The numbers of the tasks."""
        return self.program.index

    @cached_property
    def makespan(self) -> Fraction:
        """From 0 to the last end, in units."""
        return self.units(max(self.ends, default=0))

    @cached_property
    def lanes(self) -> list[LaneTime]:
        """The time of every lane, in the order of the Program."""
        found = []
        for lane, (low, high) in zip(self.index.lanes, pairwise(self.index.first), strict=True):
            busy = self.units(sum(self.ends[low:high]) - sum(self.starts[low:high]))
            first = self.units(self.starts[low] if high > low else 0)
            last = self.units(self.ends[high - 1] if high > low else 0)
            found.append(LaneTime(lane, high - low, busy, self.makespan - busy, first, last))
        return found

    @cached_property
    def held(self) -> dict[Key, Held]:
        """What each rank holds in each tier from every instant on (see `held`)."""
        return held(self.index, self.starts, self.ends)

    def rows(self) -> Iterator[Interval]:
        """All tasks, lane after lane, with their instants in ticks."""
        lanes, lane_of = self.index.lanes, self.index.lane
        for number, (task, start, end) in enumerate(zip(self.index.tasks, self.starts, self.ends, strict=True)):
            yield Interval(lanes[lane_of[number]], task, number, start, end)

    def sent(self, number: int) -> int:
        """When the message of a receive was on its way, in ticks; of any other task its start."""
        send = self.index.source[number]
        return self.starts[number] if send < 0 else min(self.ends[send], self.starts[number])

    def units(self, ticks: int) -> Fraction:
        """Ticks in units of time."""
        return Fraction(ticks, self.scale)


def timed(program: Program, ticks: Sequence[int], lags: Sequence[int], scale: int = 1) -> Timed:
    """Run all tasks of `program` as soon as they can, without contention for links; ProgramError for a deadlock.

    ticks: of each task.  lags: of each receive, from the end of its send on (see `walk`).
    """
    found = walk(program.index, ticks, lags)
    if len(found.order) < len(program.index.tasks):
        ordered(program.index)  # it names the tasks that wait for each other
    return Timed(program, found.starts, found.ends, scale)
