"""V-Min (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS 2024): a third of 1F1B's memory."""

from __future__ import annotations

from functools import partial

from poise.pipeline.block import Block, repeat
from poise.pipeline.costs import Costs
from poise.pipeline.fitted import EFFORT, fitted
from poise.pipeline.reorder import reordered
from poise.pipeline.schedule import Schedule


def v_min(stages: int, microbatches: int, costs: Costs | None = None, effort: int = EFFORT) -> Schedule:
    """Peak at most ⌊(p + 4) / 3⌋; span bubble about 2p at T_F = T_B = T_W, and more where they differ.

    Two chunks per rank as a V. The fastest of the plain repetition of the paper's block, what the paper's squeezing
    makes of it (reorder.py) and, with `costs`, what squeezing at their times does, all within its peak. `effort` are
    the operations that the last may place.
    """
    wait = 2 if stages % 3 == 0 else 0

    def block(place: int) -> Block:
        return Block(place, 2 * stages - 1 - place, 2 * stages + wait + place, 4 * stages + wait - 1 - place)

    def plain(count: int) -> Schedule:
        ranks = ((op for _, op in repeat(block(place), place, stages, count)) for place in range(stages))
        return Schedule.of(ranks, "v_min")

    published = partial(reordered, [block(place) for place in range(stages)], name="v_min")
    return fitted((plain, published), microbatches, costs, effort)
