"""ZB-H2 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2.3): more memory, no bubble in the span."""

from __future__ import annotations

from poise.pipeline.schedule import Schedule
from poise.pipeline.schedules.zb_h1 import split


def zb_h2(stages: int, microbatches: int) -> Schedule:
    """Span bubble (p − 1)(T_F + T_B − 2 T_W) and peak 2p − 1 on every rank, for m ≥ 2p − 1.

    Rank s runs 2(p − s) − 2 forwards ahead and keeps 2s weight gradients back. The makespan still has the p − 1 steps
    by which the last rank starts later: the gain needs an optimizer step that the ranks take one after the other.
    """
    ranks = (split(stage, microbatches, 2 * (stages - stage) - 2, 2 * stage) for stage in range(stages))
    return Schedule.of(ranks, "zb_h2")
