"""Broadcasts as messages to each member, on the lanes of all other messages between the two ranks."""

from __future__ import annotations

from poise.program.index import Index
from poise.program.program import Program
from poise.program.task import Lane, Task, at, base

Item = tuple[int, Task, Task]
"""The task that makes what is sent, and both ends of the message."""


def as_messages(program: Program) -> Program:
    """The same with every broadcast of one value replaced by messages, each in the order in which values are made.

    The members get the value under the sender's name for it.
    """
    if "broadcast" not in program.kinds:
        return program
    index = program.index
    names: dict[str, str] = {}
    sent: dict[tuple[int, int], list[Item]] = {}
    for members in index.members:
        tasks = [index.tasks[each] for each in members]
        if tasks[0].kind == "broadcast":
            _spread(index, tasks, names, sent)
    rows = {
        lane: [
            task._replace(reads=tuple(names.get(name, name) for name in task.reads))
            for task in row
            if task.kind != "broadcast"
        ]
        for lane, row in program.rows.items()
    }
    for number, task in enumerate(index.tasks):
        source = index.source[number]
        if source >= 0 and (pair := (task.group[0], task.group[1])) in sent:
            one = index.tasks[source]
            sent[pair].append((index.writer[one.reads[0]], one, task))
    for (here, there), items in sent.items():
        items.sort(key=lambda item: item[0])
        rows[Lane(here, items[0][1].lane)] = [one for _, one, _ in items]
        rows[Lane(there, items[0][2].lane)] = [two for _, _, two in items]
    return program.with_rows(rows)


def _spread(
    index: Index, tasks: list[Task], names: dict[str, str], sent: dict[tuple[int, int], list[Item]]
) -> None:  # fmt: skip
    """Note one broadcast: new names of what its members read, and its messages."""
    root = next(task for task in tasks if task.reads)
    value = root.reads[0]
    for task in tasks:
        there = task.rank
        names[task.writes[0]] = at(base(value), there)
        if there != root.rank:
            pair = (root.rank, there)
            one = Task("send", root.rank, f"to {there}", (value,), (), task.work, pair)
            two = Task("recv", there, f"from {root.rank}", (), (at(base(value), there),), task.work, pair)
            sent.setdefault(pair, []).append((index.writer[value], one, two))
