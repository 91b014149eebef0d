"""Workflows that are refined while they run: a model looks at what is done, and what went wrong is done again.

Flow (arXiv 2501.07834 and its code): after so many subtasks have ended no more begin; when those under way have ended,
a model is asked for a new graph, and subtasks that it changes are pending again, with all that come behind them. The
other way, ours, asks while subtasks go on to begin, and takes the answer in when it comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from poise.workload.director import Sends, Undirected
from poise.workload.flow import Draft
from poise.workload.table import Workload

Way = Literal["none", "barrier", "merge"]
WAYS: tuple[Way, ...] = ("none", "barrier", "merge")


@dataclass(slots=True)
class Program:
    """One workflow under way. attempts: of each subtask.  done, active: subtasks.  right: whether a result is.

    again: those under way whose results will not count.  since: subtasks ended since the last refinement.
    """

    number: int
    draft: Draft
    left: int
    attempts: list[int]
    done: set[int] = field(default_factory=set)
    active: set[int] = field(default_factory=set)
    right: dict[int, bool] = field(default_factory=dict)
    again: set[int] = field(default_factory=set)
    since: int = 0
    stopped: bool = False
    planning: bool = False


class Refining(Undirected):
    """All workflows of one run."""

    def __init__(
        self, workload: Workload, chosen: list[Draft], way: Way, every: int, most: int, wrong: NDArray[np.bool_]
    ) -> None:
        self._arrival, self._wrong = workload.arrival, wrong
        self._way, self._every, self._most = way, every, most
        self._each = len(workload) // len(chosen)
        self._programs = [
            Program(number, draft, most if way != "none" else 0, [0] * len(draft.before))
            for number, draft in enumerate(chosen)
        ]
        self._sent: set[int] = set()
        self._counts = dict.fromkeys(("right", "refinements", "run_again"), 0)

    def begin(self) -> Sends:
        """The subtasks that wait for none."""
        return [
            send for each in self._programs for send in self._ready(each, int(self._arrival[each.number * self._each]))
        ]

    def ended(self, row: int, now: int, finished: bool) -> Sends:
        """A subtask or a refinement has ended: what begins now."""
        program = self._programs[row // self._each]
        task = row % self._each // (self._most + 1)
        if not finished:
            program.stopped = True  # nothing follows
            return []
        if task < len(program.draft.before):
            self._end(program, task, row)
        else:
            self._refine(program)
        sends = self._ask(program, now)
        if not program.stopped:
            sends += self._ready(program, now)
        if not (program.active or program.planning or sends):
            self._counts["right"] += all(program.right.values())
        return sends

    def spare(self) -> Iterable[int]:
        """What was kept ready for programs that are over."""
        over = [each for each in self._programs if len(each.done) == len(each.draft.before)]
        rows = (row for each in over for row in range(each.number * self._each, (each.number + 1) * self._each))
        return [row for row in rows if row not in self._sent]

    def counts(self) -> Mapping[str, float]:
        """Programs whose results are all right, refinements, subtasks that ran again."""
        return self._counts

    def _send(self, row: int, now: int) -> tuple[int, int]:
        self._sent.add(row)
        return row, now

    def _ready(self, program: Program, now: int) -> list[tuple[int, int]]:
        """Begin what waits for nothing that is to come."""
        sends = []
        for task, before in enumerate(program.draft.before):
            if task not in program.done and task not in program.active and program.done.issuperset(before):
                row = program.number * self._each + task * (self._most + 1) + program.attempts[task]
                self._counts["run_again"] += program.attempts[task] > 0
                program.attempts[task] += 1
                program.active.add(task)
                program.right[task] = all(program.right[each] for each in before)
                sends.append(self._send(row, now))
        return sends

    def _end(self, program: Program, task: int, row: int) -> None:
        program.active.remove(task)
        program.since += 1
        if task in program.again:
            program.again.remove(task)
            return
        program.right[task] &= not self._wrong[row]
        program.done.add(task)

    def _ask(self, program: Program, now: int) -> list[tuple[int, int]]:
        """Ask for a refinement where it is time, with a barrier when nothing is under way any more."""
        if program.since >= self._every and program.left and not program.planning:
            program.stopped |= self._way == "barrier"
            if not program.stopped or not program.active:
                program.planning, program.since = True, 0
                program.left -= 1
                return [self._send((program.number + 1) * self._each - 1 - program.left, now)]
        return []

    def _refine(self, program: Program) -> None:
        """What is wrong and all that rests on it is to be done again."""
        self._counts["refinements"] += 1
        program.planning = program.stopped = False
        for task, before in enumerate(program.draft.before):
            if task in program.done and not program.right[task]:
                program.done.remove(task)
            elif task in program.active and not program.done.issuperset(before):
                program.again.add(task)
