"""GPipe (Huang et al., 2019): all forwards, then all backwards."""

from __future__ import annotations

from poise.pipeline.op import B, F
from poise.pipeline.schedule import Schedule


def gpipe(stages: int, microbatches: int) -> Schedule:
    """Makespan (m + p − 1)(T_F + T_B + T_W); peak m on every rank.

    The paper keeps stage inputs only and recomputes the rest, which is a matter of memory weights and durations; its
    backwards run in reverse order, here in that of the forwards, with the same makespan and peak.
    """
    ranks = [
        [*(F(stage, batch) for batch in range(microbatches)), *(B(stage, batch) for batch in range(microbatches))]
        for stage in range(stages)
    ]
    return Schedule.of(ranks, "gpipe")
