"""Reductions one after the other as one: the buckets of PyTorch DDP.

After Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training" (VLDB 2020), section 3.2.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.errors import ProgramError
from poise.program.passes.gradients import LANE, SUMS
from poise.program.program import Program
from poise.program.task import Lane, Task

MIB = float(1 << 20)
CAP = 25 * MIB
FIRST = MIB
"""Bytes of a bucket and of the first one in PyTorch (`bucket_cap_mb`, `dist._DEFAULT_FIRST_BUCKET_BYTES`)."""


def bucketed(program: Program, cap: float = CAP, first: float = FIRST) -> Program:
    """Join the reductions that follow each other on the lane `sync` of a rank until they have `cap` bytes.

    A bucket is closed by the gradient with which it reaches the cap, so the last one may be smaller and each may be
    larger. `first` is the cap of a rank's first bucket, which is small so that the first sum begins early. A bucket
    starts when all its gradients are there; `reduced` has put them into the order in which they get ready, for models
    the reverse of their layers. ProgramError for a cap below 0.
    """
    for name, each in (("cap", cap), ("first", first)):
        if not each >= 0:
            raise ProgramError(f"bucketed: {name} is {each:g} bytes; give 0 (each gradient alone) or more")
    rows = {
        lane: tuple(_joined(row, cap, first)) if lane == Lane(lane.rank, LANE) else row
        for lane, row in program.rows.items()
    }
    return program.with_rows(rows)


def _joined(row: Sequence[Task], cap: float, first: float) -> list[Task]:
    found: list[Task] = []
    bucket: list[Task] = []
    limit = first
    for task in row:
        if bucket and not _alike(bucket[-1], task):
            found.append(joined(bucket))
            bucket = []
        bucket.append(task)
        if task.kind not in SUMS or sum(each.work for each in bucket) >= limit:
            found.append(joined(bucket))
            bucket, limit = [], cap
    return [*found, joined(bucket)] if bucket else found


def _alike(one: Task, two: Task) -> bool:
    return one.kind == two.kind and one.group == two.group


def joined(tasks: Sequence[Task]) -> Task:
    """One collective that does what all of them do."""
    if len(tasks) == 1:
        return tasks[0]
    reads = tuple(name for task in tasks for name in task.reads)
    writes = tuple(name for task in tasks for name in task.writes)
    work, args = sum(task.work for task in tasks), tuple(task.arg for task in tasks)
    return tasks[0]._replace(reads=reads, writes=writes, work=work, arg=args)
