"""One optimizer for all weights of a rank, and the new weights gathered behind it: ZeRO-1, ZeRO-2."""

from __future__ import annotations

from collections.abc import Sequence

from poise.program.passes.given import for_ranks
from poise.program.passes.gradients import LANE
from poise.program.program import Builder, Program
from poise.program.task import Lane, Task, at, base

ARG = "optimizer"
"""Of the task that waits for all gradients of a rank."""


def optimized(program: Program, bytes: Sequence[float] = ()) -> Program:
    """Let every rank's first update wait for the gradients of all, as an optimizer that runs once does.

    bytes: what each rank then receives to have its new weights whole, on the lane `sync`, behind the reductions: an
    all-gather of one rank, with shards that are not part of the Program; 0 or nothing: none.
    """
    given = for_ranks("optimized", bytes, program) if bytes else [0.0] * program.ranks
    into = Builder.of(program)
    for rank in range(program.ranks):
        row = into.rows.get(Lane(rank, "compute"), [])
        slots = [slot for slot, task in enumerate(row) if task.kind == "update"]
        if not slots:
            continue
        updates = [row[slot] for slot in slots]
        gradients = tuple(name for task in updates for name in task.reads[1:])
        row.insert(slots[0], Task("wait", rank, "compute", gradients, (at("gradients", rank),), arg=ARG))
        if given[rank]:
            new = tuple(name for task in updates for name in task.writes)
            all_of = tuple(at(f"all.{base(name)}", rank) for name in new)
            into.add(Task("all_gather", rank, LANE, new, all_of, given[rank], (rank,), "weights"))
    return into.build()
