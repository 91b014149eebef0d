"""DualPipeV (DeepSeek, 2025): DualPipe cut in half and folded, so that no weights are kept twice."""

from __future__ import annotations

from poise.core.errors import ScheduleError
from poise.pipeline.schedule import Schedule
from poise.pipeline.schedules.dualpipe import phases


def dualpipe_v(stages: int, microbatches: int) -> Schedule:
    """Two chunks per rank as a V: rank r has chunks r and 2p − 1 − r and runs DualPipe's phases on them; m ≥ 2p.

    Bubble (p − 1) / 2 at T_F = T_B = T_W, in the span as in the makespan; peak p + 1 / 2 on every rank.
    """
    if microbatches < 2 * stages:
        raise ScheduleError(
            f"dualpipe_v: {microbatches} microbatches on {stages} stages; it needs at least {2 * stages}: give more, "
            "or choose zb_v"
        )
    ranks = (phases(place, stages, microbatches, ((place, 0), (2 * stages - 1 - place, 0))) for place in range(stages))
    return Schedule.of(ranks, "dualpipe_v")
