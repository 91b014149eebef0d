"""GPipe (Huang et al., 2019): all forwards, then all backwards."""

from __future__ import annotations

from poise.pipeline.op import B, F
from poise.pipeline.recompute import recomputed
from poise.pipeline.schedule import Schedule


def gpipe(stages: int, microbatches: int, recompute: bool = False) -> Schedule:
    """Makespan (m + p − 1)(T_F + T_B + T_W); peak m on every rank.

    With `recompute`, as in the paper, m T_R more, and a peak of m stage inputs and what one microbatch holds besides:
    all but the last stage recompute their first microbatch while they wait. The paper's backwards run in reverse order,
    here in that of the forwards, with the same makespan and peak.
    """
    ranks = [
        [*(F(stage, batch) for batch in range(microbatches)), *(B(stage, batch) for batch in range(microbatches))]
        for stage in range(stages)
    ]
    schedule = Schedule.of(ranks, "gpipe")
    return recomputed(schedule) if recompute else schedule
