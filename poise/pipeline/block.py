"""Schedules that repeat one building block: the slots of a microbatch's operations on every rank, shifted in time.

After Qi et al., "Pipeline Parallelism with Controllable Memory" (NeurIPS 2024, section 3). Two chunks per rank placed
as a V, six operations of one slot each, so a block starts every six slots. What a rank holds at its peak is the sum of
the lifespans of its chunks divided by six: placing long next to short lifespans evens it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from poise.pipeline.op import F, I, Op, W

INTERVAL = 6


class Block(NamedTuple):
    """Slots on one rank of the forwards and input gradients of its two chunks, for microbatch 0."""

    f0: int
    f1: int
    b1: int
    b0: int


def repeat(block: Block, place: int, stages: int, microbatches: int) -> Iterator[tuple[int, Op]]:
    """(slot, operation) of one rank, in order; each weight gradient takes the next free slot behind its input's."""
    far = 2 * stages - 1 - place
    taken = {slot % INTERVAL for slot in block}
    w1 = _free(block.b1, taken)
    w0 = _free(block.b0, taken | {w1 % INTERVAL})
    near, end = ((block.f0, F), (block.b0, I), (w0, W)), ((block.f1, F), (block.b1, I), (w1, W))
    offsets = [(*each, place) for each in near] + [(*each, far) for each in end]
    found = [
        (slot + INTERVAL * batch, make(stage, batch)) for slot, make, stage in offsets for batch in range(microbatches)
    ]
    yield from sorted(found)


def _free(slot: int, taken: set[int]) -> int:
    while slot % INTERVAL in taken:
        slot += 1
    return slot
