"""All building blocks of one shape: two chunks per rank as a V, six slots, which repeat for every microbatch.

After Qi et al., "Pipeline Parallelism with Controllable Memory" (NeurIPS 2024, section 3.1 and appendix A). A block is
told by the slots modulo six of the first rank and by how far forwards of the first and gradients of the second chunk
move from rank to rank (1 to 5 slots, with one change on the way); those of the other two come back one slot a rank.
V-Min, V-Half and their kin are blocks of it. Everything is computed for all blocks at once.
"""

from __future__ import annotations

from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poise.pipeline.block import INTERVAL
from poise.pipeline.graph import Ints
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule
from poise.pipeline.shop import Shop

_MOVES = range(1, INTERVAL)

_ORDER = ((Kind.F, False), (Kind.F, True), (Kind.I, True), (Kind.I, False), (Kind.W, True), (Kind.W, False))
"""Kind, and whether of the second chunk, of the six slots of a rank."""


class Family(NamedTuple):
    """Slots by block, rank and operation (as `_ORDER`), and the activations of chunks that a rank holds at most."""

    slots: Ints
    peaks: Ints

    def within(self, room: NDArray[np.int64]) -> Family:
        """The blocks that hold no more than that on any rank."""
        fit = (self.peaks <= room).all(axis=1)
        return Family(self.slots[fit], self.peaks[fit])


def family(ranks: int) -> Family:
    """All blocks for so many ranks in which no two operations fall on one slot."""
    first = np.array(list(permutations(range(1, INTERVAL), 3)))
    moved = _moved(ranks)
    back = np.arange(ranks)
    parts = np.broadcast_arrays(
        moved[None], first[:, 0, None, None] - back, first[:, 1, None, None] + moved, first[:, 2, None, None] - back
    )
    rest = np.stack(parts, -1) % INTERVAL
    apart = np.ones(rest.shape[:2], dtype=bool)
    for one, two in combinations(range(4), 2):
        apart &= (rest[..., one] != rest[..., two]).all(-1)
    which, way = np.nonzero(apart)
    slots = _slots(first[which], moved[way], ranks)
    return Family(slots, _peaks(slots))


def _moved(ranks: int) -> Ints:
    """How far each rank's slots of the ways down lie behind the first rank's: pairs of moves, and a few places.

    Many ranks have as many places of change as make no difference, so that only some are looked at.
    """
    ways = [
        (one, two, place)
        for one in _MOVES
        for two in range(1, one + 1)
        for place in (range(1, ranks - 1, max(1, ranks // 6)) if one > two else (ranks,))
    ]
    one, two, place = np.array(ways).T[:, :, None]
    rank = np.arange(ranks)
    moved: Ints = one * np.minimum(rank, place) + two * np.maximum(rank - place, 0)
    return moved


def _slots(first: Ints, moved: Ints, ranks: int) -> Ints:
    """The slots themselves: each chunk begins at its first possible slot behind the one before."""
    rank, last = np.arange(ranks), ranks - 1
    turn = _after(moved[:, -1], first[:, 0] - last)
    f1 = turn[:, None] + last - rank
    b1 = _after(f1[:, 0], first[:, 1])[:, None] + moved
    b0 = _after(b1[:, -1], first[:, 2] - last)[:, None] + last - rank
    taken = np.zeros((*moved.shape, INTERVAL), dtype=bool)
    for each in (moved, f1, b1, b0):
        np.put_along_axis(taken, (each % INTERVAL)[..., None], True, -1)
    w1 = _free(b1, taken)
    return np.stack([moved, f1, b1, b0, w1, _free(b0, taken)], -1)


def _after(slot: Ints, rest: Ints) -> Ints:
    """The next slot with this remainder."""
    return slot + 1 + (rest - slot - 1) % INTERVAL


def _free(slot: Ints, taken: NDArray[np.bool_]) -> Ints:
    """The next free slot of each rank, which is taken by that."""
    for _ in range(INTERVAL):
        slot = slot + np.take_along_axis(taken, (slot % INTERVAL)[..., None], -1)[..., 0]
    np.put_along_axis(taken, (slot % INTERVAL)[..., None], True, -1)
    return slot


def _peaks(slots: Ints) -> Ints:
    """Microbatches between forward and weight gradient of both chunks, at the worst slot of the steady state."""
    f0, f1, _, _, w1, w0 = np.moveaxis(slots, -1, 0)
    held = [(f0, w0), (f1, w1)]
    late = INTERVAL * (2 + int(slots.max()) // INTERVAL)
    found = np.zeros(f0.shape, dtype=np.int64)
    for slot in range(late, late + INTERVAL):
        level = sum((slot - begin) // INTERVAL - (slot - end - 1) // INTERVAL for begin, end in held)
        found = np.maximum(found, level)
    return found


def repeat(slots: Ints, microbatches: int, name: str) -> Schedule:
    """The schedule that repeats one block."""
    ranks = len(slots)
    batches = np.tile(np.arange(microbatches), len(_ORDER))
    which = np.repeat(np.arange(len(_ORDER)), microbatches)
    rows = []
    for rank in range(ranks):
        order = np.argsort(slots[rank][which] + INTERVAL * batches)
        stages = [2 * ranks - 1 - rank if far else rank for _, far in _ORDER]
        pairs = zip(which[order].tolist(), batches[order].tolist(), strict=True)
        rows.append(tuple(Op(stages[each], _ORDER[each][0], batch) for each, batch in pairs))
    return Schedule(tuple(rows), 2 * ranks, microbatches, name)


def lengths(slots: Ints, shop: Shop) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Makespan and largest bubble in a span, in ticks, of each block repeated with the shop's times.

    All blocks walk side by side, an operation each at a time, in the order of their slots, which is a possible one.
    """
    count, ranks, stages = shop.microbatches, shop.ranks, shop.stages
    rank = np.arange(ranks)
    stage = np.stack([2 * ranks - 1 - rank if far else rank for _, far in _ORDER], -1)
    node = (np.array([int(kind) for kind, _ in _ORDER]) * stages + stage)[..., None] * count + np.arange(count)
    begins = (slots[..., None] + INTERVAL * np.arange(count)).reshape(len(slots), -1)
    order = np.ascontiguousarray(node.reshape(-1)[np.argsort(begins, axis=1, kind="stable")].T)
    need, lag, ticks = _needs(shop)
    blocks = np.arange(len(slots))
    need, owner = need * len(slots), np.tile(np.repeat(np.array(shop.route), count), 3) * len(slots)
    ends = np.zeros((3 * stages * count + 1) * len(slots))
    free = np.zeros(ranks * len(slots))
    for ops in order:
        rank_of = owner[ops] + blocks
        end = np.maximum(ends[need[ops] + blocks] + lag[ops], free[rank_of])
        end += ticks[ops]
        ends[ops * len(slots) + blocks] = free[rank_of] = end
    last = free.reshape(ranks, -1)
    begun = np.cumsum([0, *(shop.ticks(Kind.F, stage) + shop.hops[stage] for stage in range(ranks - 1))])
    return last.max(0), (last - (begun + np.array(shop.work))[:, None]).max(0)


def _needs(shop: Shop) -> tuple[Ints, NDArray[np.float64], NDArray[np.float64]]:
    """What each operation (kind, stage, microbatch) waits for elsewhere, how long that is under way, its own time."""
    stages, count = shop.stages, shop.microbatches
    table = np.full((3, stages, count), 3 * stages * count)
    index = np.arange(3 * stages * count).reshape(table.shape)
    lag = np.zeros(table.shape)
    table[Kind.F, 1:], table[Kind.I, :-1] = index[Kind.F, :-1], index[Kind.I, 1:]
    table[Kind.I, -1], table[Kind.W] = index[Kind.F, -1], index[Kind.I]
    lag[Kind.F, 1:] = lag[Kind.I, :-1] = np.array(shop.hops, dtype=float)[:, None]
    times = [[[shop.ticks(kind, stage)] * count for stage in range(stages)] for kind in range(3)]
    return table.reshape(-1), lag.reshape(-1), np.array(times, dtype=float).reshape(-1)
