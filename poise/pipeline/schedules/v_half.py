"""V-Half (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS 2024): half of 1F1B's memory."""

from __future__ import annotations

from functools import partial

from poise.pipeline.block import Block, repeat
from poise.pipeline.costs import Costs
from poise.pipeline.fitted import EFFORT, fitted
from poise.pipeline.justify import justify
from poise.pipeline.reorder import reordered
from poise.pipeline.schedule import Schedule


def v_half(stages: int, microbatches: int, costs: Costs | None = None, effort: int = EFFORT) -> Schedule:
    """Peak ⌊(p + 2) / 2⌋; span bubble about 3p / 2 at T_F = T_B = T_W, steady while W + 2B ≥ 2F and W + 2F ≥ 2B.

    Two chunks per rank as a V. The paper's block is repeated, then squeezed within its peak: from the end on
    (justify.py), as in the paper (reorder.py), and with `costs` at their times as well; the fastest is taken. `effort`
    are the operations that the last may place.
    """
    wait = 3 if stages % 2 == 0 else 0

    def block(place: int) -> Block:
        backward = 3 * stages + wait + 2 * place - 1
        return Block(2 * place, 3 * stages - place - 2, backward, 6 * stages + wait - place - 2)

    def justified(count: int) -> Schedule:
        ranks = ((op for _, op in repeat(block(place), place, stages, count)) for place in range(stages))
        return justify(Schedule.of(ranks, "v_half"))

    published = partial(reordered, [block(place) for place in range(stages)], name="v_half")
    return fitted((justified, published), microbatches, costs, effort)
