"""The critical path of a timed Program: the tasks that one after the other determine its makespan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from poise.program.task import Lane
from poise.program.timed import Timed


class Step(NamedTuple):
    """A task of the path. It could start when the step before it had ended; `wait` ticks later it did."""

    number: int
    wait: int


class Stretch(NamedTuple):
    """Steps on one lane, as a row of a table: instants in ticks; `wait` before the first of them."""

    lane: Lane
    first: int
    last: int
    tasks: int
    wait: int
    start: int
    end: int


def critical_path(timed: Timed) -> list[Step]:
    """From a first task to the last end, back to front by the cause that was there last.

    Causes are the task before on the lane, the writers of what is read, the send of a receive, and those of all members
    of a collective. The wait is that of a message on its way, or of links that are shared.
    """
    found: list[Step] = []
    number = max(range(len(timed.ends)), key=timed.ends.__getitem__, default=-1)
    while number >= 0:
        cause = _cause(timed, number)
        begin = timed.ends[cause] if cause >= 0 else 0
        found.append(Step(number, timed.starts[number] - begin))
        number = cause
    return found[::-1]


def stretches(timed: Timed, path: Sequence[Step]) -> Iterator[Stretch]:
    """The path as one row for each stay on a lane."""
    rows: list[Step] = []
    for step in path:
        if rows and (step.wait or timed.index.lane[step.number] != timed.index.lane[rows[0].number]):
            yield _stretch(timed, rows)
            rows = []
        rows.append(step)
    if rows:
        yield _stretch(timed, rows)


def _stretch(timed: Timed, rows: Sequence[Step]) -> Stretch:
    first, last = rows[0].number, rows[-1].number
    lane = timed.index.lanes[timed.index.lane[first]]
    return Stretch(lane, first, last, len(rows), rows[0].wait, timed.starts[first], timed.ends[last])


def _cause(timed: Timed, number: int) -> int:
    """What a task waited for last, −1 where it waited for nothing."""
    index, ends = timed.index, timed.ends
    meeting = index.meeting[number]
    members = index.members[meeting] if meeting >= 0 else [number]
    causes = [cause for member in members for cause in _own(timed, member)]
    tight = [cause for cause in causes if ends[cause] == timed.starts[number]]
    if tight:
        return tight[0]
    send = index.source[number]
    if send >= 0:
        return send  # the message is still on its way when all else is ready
    return max(causes, key=ends.__getitem__, default=-1)


def _own(timed: Timed, number: int) -> list[int]:
    """The task before on the lane, and the writers of what is read."""
    index = timed.index
    before = [number - 1] if number > index.first[index.lane[number]] else []
    send = [index.source[number]] if index.source[number] >= 0 else []
    return [*before, *index.needs[number], *send]
