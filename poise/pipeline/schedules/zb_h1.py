"""ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2.3): 1F1B whose weight gradients wait."""

from __future__ import annotations

from collections.abc import Iterator

from poise.pipeline.op import F, I, Op, W
from poise.pipeline.schedule import Schedule


def zb_h1(stages: int, microbatches: int) -> Schedule:
    """Span bubble (p − 1)(T_F + T_B − T_W); peak min(m, p) on every rank, as rank 0 of 1F1B.

    Rank s keeps s weight gradients back, so that its input gradients reach the rank before it earlier.
    """
    ranks = (split(stage, microbatches, stages - 1 - stage, stage) for stage in range(stages))
    return Schedule.of(ranks, "zb_h1")


def split(stage: int, microbatches: int, ahead: int, behind: int) -> Iterator[Op]:
    """1F1B after `ahead` forwards, with the weight gradients `behind` microbatches after the input gradients."""
    ahead = min(ahead, microbatches)
    yield from (F(stage, batch) for batch in range(ahead))
    for batch in range(microbatches):
        if batch + ahead < microbatches:
            yield F(stage, batch + ahead)
        yield I(stage, batch)
        if batch >= behind:
            yield W(stage, batch - behind)
    yield from (W(stage, batch) for batch in range(max(0, microbatches - behind), microbatches))
