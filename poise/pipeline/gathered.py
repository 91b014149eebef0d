"""A schedule with the gathers of sharded weights written out: UNSHARD before they are used, RESHARD behind."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from poise.pipeline.communicate import communicate
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule

USES = frozenset({Kind.F, Kind.I, Kind.W, Kind.B, Kind.R})
"""The kinds for which a stage's weights must be whole. Of W that holds for FSDP, not for the arithmetic."""


def gathered(schedule: Schedule, stages: Collection[int] | None = None, *, reshard: bool = True) -> Schedule:
    """`schedule` with UNSHARD and RESHARD of `stages` (default: all), communications included.

    With `reshard` weights are whole during a run of operations on their stage (ZeRO-3), without it from the first use
    to the last (ZeRO-2).
    """
    whole = schedule if schedule.communicates else communicate(schedule)
    chosen = frozenset(range(schedule.stages) if stages is None else stages)
    return replace(whole, ranks=tuple(tuple(_row(row, chosen, reshard)) for row in whole.ranks))


def _row(row: tuple[Op, ...], chosen: frozenset[int], reshard: bool) -> Iterator[Op]:
    last = {op.stage: at for at, op in enumerate(row) if op.kind in USES}
    there: list[int] = []
    for at, op in enumerate(row):
        uses = op.kind in USES and op.stage in chosen
        if uses and op.stage not in there:
            if reshard and there:
                yield Op(there.pop(), Kind.RESHARD, None)
            yield Op(op.stage, Kind.UNSHARD, None)
            there.append(op.stage)
        yield op
        if uses and last[op.stage] == at:
            there.remove(op.stage)
            yield Op(op.stage, Kind.RESHARD, None)
