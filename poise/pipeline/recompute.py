"""Keep only the inputs of stages, and run their forwards again before their backwards (Chen et al., 2016)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule


def recomputed(schedule: Schedule, stages: Collection[int] | None = None) -> Schedule:
    """`schedule` with an R before every I or B of `stages` (default: all); one that waits for its gradient hides R."""
    chosen = range(schedule.stages) if stages is None else stages
    return replace(schedule, ranks=tuple(tuple(_row(row, chosen)) for row in schedule.compute().ranks))


def _row(row: tuple[Op, ...], stages: Collection[int]) -> Iterator[Op]:
    for op in row:
        if op.kind in (Kind.I, Kind.B) and op.stage in stages:
            yield Op(op.stage, Kind.R, op.microbatch)
        yield op
