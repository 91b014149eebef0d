"""How long the tasks of a Program take, besides the bytes that they bring over links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from poise.core.errors import ProgramError
from poise.core.units import ps
from poise.program import Program, Task
from poise.program.index import Index
from poise.sim.links.wiring import Wiring


class Clock(NamedTuple):
    """Picoseconds of each task, in the order of `program.index.tasks`."""

    ticks: Sequence[int]
    """On its lane: of a computation all, of a transfer what comes before its first byte."""
    lags: Sequence[int]
    """Of a receive from the end of its send on, of any other task from its end until others can use its results."""

    @classmethod
    def of(cls, program: Program, wiring: Wiring, seconds: Callable[[Task], float], collective_s: float = 0.0) -> Clock:
        """A clock of seconds for each task, the wiring's latency for messages, and one for all collectives.

        ProgramError where seconds are negative or not finite.
        """
        index, late = program.index, ps(collective_s)
        took = [seconds(task) for task in index.tasks]
        for number, each in enumerate(took):
            if not 0 <= each < inf:
                raise ProgramError(f"clock: {index.place(number)} takes {each!r} s; give 0 or more")
        ticks = [ps(each) for each in took]
        lags = [late if meeting >= 0 else 0 for meeting in index.meeting]
        for number, send in enumerate(index.source):
            if send >= 0:
                lags[number] = ps(wiring.latency(*index.tasks[number].group))
        return cls(ticks, lags)

    def check(self, index: Index) -> None:
        """ProgramError where it does not fit the tasks, or a time is negative."""
        for name, column in (("ticks", self.ticks), ("lags", self.lags)):
            if len(column) != len(index.tasks):
                raise ProgramError(
                    f"clock: {len(column)} {name} for {len(index.tasks)} tasks; give one for each of index.tasks"
                )
            if column and min(column) < 0:
                wrong = next(at for at, each in enumerate(column) if each < 0)
                raise ProgramError(f"clock: {name} of {index.place(wrong)} are {column[wrong]}; give 0 or more")
