"""Schedules with one random change: swapped, dropped, doubled, moved or renamed operations."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from poise.pipeline import Op, Schedule

CHANGES = ("swap", "neighbours", "drop", "double", "move", "microbatch", "kind")


def tampered(schedule: Schedule, chance: Random) -> Schedule:
    """`schedule` with one change somewhere; now and then it is none."""
    rows = [list(row) for row in schedule.ranks]
    rank = chance.randrange(len(rows))
    row = rows[rank]
    one, two = chance.randrange(len(row)), chance.randrange(len(row))
    change = chance.choice(CHANGES)
    if change == "neighbours":
        two = min(one + 1, len(row) - 1)
    if change in ("swap", "neighbours"):
        row[one], row[two] = row[two], row[one]
    elif change == "drop":
        del row[one]
    elif change == "double":
        row.insert(two, row[one])
    elif change == "move":
        other = rows[chance.randrange(len(rows))]
        other.insert(min(two, len(other)), row.pop(one))
    elif row[one].microbatch is not None:
        row[one] = _other(row[one], row[two], schedule.microbatches, change, chance)
    return replace(schedule, ranks=tuple(map(tuple, rows)))


def _other(op: Op, like: Op, microbatches: int, change: str, chance: Random) -> Op:
    if change == "microbatch":
        return op._replace(microbatch=chance.randrange(microbatches))
    return op._replace(kind=like.kind) if like.microbatch is not None else op
