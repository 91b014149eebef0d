"""V-Min (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS 2024): a third of 1F1B's memory."""

from __future__ import annotations

from poise.pipeline.block import Block, repeat
from poise.pipeline.schedule import Schedule


def v_min(stages: int, microbatches: int) -> Schedule:
    """Peak at most ⌊(p + 4) / 3⌋; span bubble about 2p at T_F = T_B = T_W, and more where they differ.

    Two chunks per rank as a V; the plain repetition of the paper's block.
    """
    wait = 2 if stages % 3 == 0 else 0

    def block(place: int) -> Block:
        return Block(place, 2 * stages - 1 - place, 2 * stages + wait + place, 4 * stages + wait - 1 - place)

    ranks = ((op for _, op in repeat(block(place), place, stages, microbatches)) for place in range(stages))
    return Schedule.of(ranks, "v_min")
