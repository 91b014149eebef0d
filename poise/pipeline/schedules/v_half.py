"""V-Half (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS 2024): half of 1F1B's memory."""

from __future__ import annotations

from poise.pipeline.block import Block, repeat
from poise.pipeline.justify import justify
from poise.pipeline.schedule import Schedule


def v_half(stages: int, microbatches: int) -> Schedule:
    """Peak ⌊(p + 2) / 2⌋; span bubble about 3p / 2 at T_F = T_B = T_W, steady while W + 2B ≥ 2F and W + 2F ≥ 2B.

    Two chunks per rank as a V; the paper's block is repeated, then squeezed within its peak (here from the end on).
    """
    wait = 3 if stages % 2 == 0 else 0

    def block(place: int) -> Block:
        backward = 3 * stages + wait + 2 * place - 1
        return Block(2 * place, 3 * stages - place - 2, backward, 6 * stages + wait - place - 2)

    ranks = ((op for _, op in repeat(block(place), place, stages, microbatches)) for place in range(stages))
    return justify(Schedule.of(ranks, "v_half"))
