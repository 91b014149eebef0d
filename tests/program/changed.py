"""Programs with one random change: tasks swapped, dropped, doubled or moved, or with another read, argument or kind."""

from __future__ import annotations

from random import Random

from poise.program import Lane, Program, Task

CHANGES = ("swap", "neighbours", "drop", "double", "move", "lane", "read", "write", "argument", "kind", "factor")


def changed(program: Program, chance: Random) -> tuple[str, Program]:
    """What was changed, and the Program with that change; the same Program where it is none."""
    rows = {lane: list(row) for lane, row in program.rows.items()}
    change = chance.choice(CHANGES)
    lane = chance.choice(list(rows))
    row = rows[lane]
    one, two = chance.randrange(len(row)), chance.randrange(len(row))
    if change == "neighbours":
        two = min(one + 1, len(row) - 1)
    task, other = row[one], row[two]
    if change in ("swap", "neighbours"):
        row[one], row[two] = other, task
    elif change == "drop":
        del row[one]
    elif change == "double":
        row.insert(two, task)
    elif change == "move":
        row.insert(two, row.pop(one))
    elif change == "lane":
        target = chance.choice([each for each in rows if each.rank == lane.rank])
        _into(rows, row.pop(one), target, chance)
    elif change == "factor":
        row[one] = task._replace(arg=(1, 1 + task.arg[1])) if task.kind == "scale" else task
    else:
        row[one] = _other(task, other, change, program, chance)
    return f"{change} {task.kind}", program.with_rows(rows)


def _into(rows: dict[Lane, list[Task]], task: Task, lane: Lane, chance: Random) -> None:
    row = rows[lane]
    row.insert(chance.randrange(len(row) + 1), task._replace(lane=lane.name))


def _other(task: Task, other: Task, change: str, program: Program, chance: Random) -> Task:
    if change == "read" and task.reads:
        own = [name for each in program.tasks() if each.rank == task.rank for name in each.writes]
        at = chance.randrange(len(task.reads))
        return task._replace(reads=(*task.reads[:at], chance.choice(own), *task.reads[at + 1 :]))
    if change == "write" and other.writes:
        return task._replace(writes=other.writes)
    if change == "argument":
        return task._replace(arg=other.arg)
    if change == "kind":
        return task._replace(kind=other.kind)
    return task
