"""How often ranks gather their stages' weights where these are sharded over data ranks (FSDP, ZeRO-3)."""

from __future__ import annotations

from fractions import Fraction

from poise.core.errors import ScheduleError
from poise.pipeline.op import Kind
from poise.pipeline.schedule import Schedule

WITH_WEIGHTS = frozenset({Kind.F, Kind.I, Kind.B, Kind.R})
"""The kinds that compute with a stage's weights; the gradient of the weights does not."""


def gathers(schedule: Schedule, kept: int = 1) -> tuple[Fraction, ...]:
    """Full-stage weights that each rank receives in a step, of which it keeps those of the last `kept` stages.

    A stage is gathered before a run of operations on it and freed for the next one; with two kept, forwards of one and
    backwards of another stage may take turns. This is what `poise.sim.step` transfers for `gather_bytes` (one kept).
    """
    if kept < 1:
        raise ScheduleError(f"kept {kept}: a rank keeps at least the stage that it works on; give 1 or more")
    return tuple(_received(row, kept) * schedule.chunk for row in schedule.ranks)


def _received(row: tuple[tuple[int, Kind, int | None], ...], kept: int) -> int:
    there: list[int] = []
    count = 0
    for stage, kind, _ in row:
        if kind not in WITH_WEIGHTS:
            continue
        if stage in there:
            there.remove(stage)
        else:
            count += 1
        there = [*there, stage][-kept:]
    return count
