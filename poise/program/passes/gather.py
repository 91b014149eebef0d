"""Sharded weights made whole before they are used, and freed behind: FSDP, ZeRO-3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from poise.core.errors import ProgramError
from poise.program.passes.given import for_stages
from poise.program.program import Builder, Program
from poise.program.task import Lane, Task, at, stem

LANE = "gather"
WITH_WEIGHTS = frozenset({"F", "F_NO_GRAD", "R", "I", "B"})
"""They read weights second. Weight gradients need none, so they are part of any run."""


class Run(NamedTuple):
    """Tasks one after the other on one stage: slots of the first and of the last on a rank's lane `compute`."""

    stage: int
    first: int
    last: int


def gathered(program: Program, bytes: Sequence[float], whole: Sequence[float] = (), *, once: bool = False) -> Program:
    """Gather a stage's weights before each run of tasks on it, and free them behind the run.

    bytes: what a rank receives for each stage; a stage of 0 is left out.  whole: memory of a stage's whole weights.
    once: a stage's weights are gathered before its first task and stay, as those that the step before updated in shards
    (ZeRO-1 and 2, with gathers beside the forward).  A run's weights are requested when the run before starts, those of
    the first at once. Each gather is an all-gather of one rank, with shards that are not part of the Program, on the
    lane `gather`. ProgramError where the Program gathers already, or updates weights in between.
    """
    each = for_stages("gathered", bytes, program)
    held = for_stages("whole", whole, program) if whole else []
    into = Builder.of(program)
    for rank in range(program.ranks):
        lane = Lane(rank, "compute")
        if lane in into.rows:
            _rank(into, rank, into.rows[lane], each, held, once)
    return into.build()


def runs(row: Sequence[Task], bytes: Sequence[float], once: bool = False) -> list[Run]:
    """The runs of a rank whose stages are gathered; `once`: one from the first task of each stage to its last."""
    found: list[Run] = []
    number: dict[int, int] = {}
    for slot, task in enumerate(row):
        if task.kind in WITH_WEIGHTS:
            stage = task.arg[0]
            same = number.get(stage, -1) if once or (found and found[-1].stage == stage) else -1
            if same >= 0:
                found[same] = found[same]._replace(last=slot)
            else:
                number[stage] = len(found)
                found.append(Run(stage, slot, slot))
    return [run for run in found if bytes[run.stage]]


def _rank(
    into: Builder, rank: int, row: list[Task], bytes: Sequence[float], whole: Sequence[float], once: bool
) -> None:
    found = runs(row, bytes, once)
    for task in row:
        if task.kind in WITH_WEIGHTS and bytes[task.arg[0]] and task.reads[1] not in into.given:
            raise ProgramError(
                f"rank {rank}: {task} uses {task.reads[1]}, which is gathered or updated within the step; gather only "
                "weights that are given and stay"
            )
    before: dict[int, list[Task]] = {}
    behind: dict[int, Task] = {}
    shard = row[found[0].first].reads[1] if found else ""
    for number, run in enumerate(found):
        own = row[run.first].reads[1]
        full = at(f"full{run.stage}#{number}", rank)
        if whole:
            into.size(full, whole[run.stage])
        into.add(Task("all_gather", rank, LANE, (shard,), (full,), bytes[run.stage], (rank,), run.stage))
        for slot in range(run.first, run.last + 1):
            task = row[slot]
            if task.kind in WITH_WEIGHTS:
                row[slot] = task._replace(reads=tuple(full if name == own else name for name in task.reads))
        if not once:
            behind[run.last] = Task("free", rank, "compute", (full,))
        if number + 1 < len(found):
            after = row[found[number + 1].first].reads[1]
            shard = at(f"{stem(after)}.shard#{number + 1}", rank)
            before[run.first] = [Task("wait", rank, "compute", (after, *row[run.first].reads), (shard,))]
    made: list[Task] = []
    for slot, task in enumerate(row):
        made += before.get(slot, ())
        made.append(task)
        if slot in behind:
            made.append(behind[slot])
    row[:] = made
