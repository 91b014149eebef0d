"""Bytes of the messages between stages."""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.fast_tuple import made
from poise.program.index import MESSAGES
from poise.program.passes.given import for_stages
from poise.program.program import Program
from poise.program.task import Task, at

FORWARDS = frozenset({"F", "F_NO_GRAD"})
BACKWARDS = frozenset({"B", "I"})


def sized(program: Program, bytes: Sequence[float]) -> Program:
    """Give each message its bytes: `bytes[s]` are those that stage s sends on, and gets back as a gradient.

    Messages that carry what no stage has made keep theirs. A forward writes first what it sends on, a backward the
    gradient that it sends back.
    """
    given = for_stages("sized", bytes, program)
    size: dict[str, float] = {}
    for task in program.tasks():
        if task.kind in FORWARDS:
            size[task.writes[0]] = given[task.arg[0]]
        elif task.kind in BACKWARDS:
            stage, sample = task.arg
            path = program.paths[sample]
            if stage != path[0]:
                size[task.writes[0]] = given[path[path.index(stage) - 1]]
    rows = program.rows.items()
    return program.with_rows({lane: [_sized(task, size) for task in row] if _sends(row) else row for lane, row in rows})


def _sends(row: Sequence[Task]) -> bool:
    """Whether a lane has messages."""
    return any(task.kind in MESSAGES for task in row)


def _sized(task: Task, size: dict[str, float]) -> Task:
    kind, rank, lane, reads, writes, work, group, arg = task
    if kind not in MESSAGES:
        return task
    name = reads[0] if kind == "send" else at(writes[0].rpartition("@")[0], group[0])
    return made(Task, (kind, rank, lane, reads, writes, size.get(name, work), group, arg))
