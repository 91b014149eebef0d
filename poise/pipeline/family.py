"""All building blocks of one shape: two chunks per rank as a V, six slots, which repeat for every microbatch.

After Qi et al., "Pipeline Parallelism with Controllable Memory" (NeurIPS 2024, section 3.1 and appendix A). A block is
determined by the slots modulo six of the first rank and by how far forwards of the first and gradients of the second
chunk move from rank to rank (1 to 5 slots, with one change on the way); those of the other two come back one slot a
rank. V-Min, V-Half and their kin are blocks of it. Everything is computed for all blocks at once.
"""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poise.pipeline.block import INTERVAL
from poise.pipeline.constraint_graph import Rows
from poise.pipeline.graph import Ints
from poise.pipeline.op import Kind
from poise.pipeline.scheduling_problem import SchedulingProblem

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
    """All blocks for `ranks` ranks in which no two operations fall on one slot."""
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


def repeat(slots: Ints, microbatches: int, name: str) -> Rows:
    """The rows that repeat one block."""
    ranks = len(slots)
    batches = np.tile(np.arange(microbatches), len(_ORDER))
    which = np.repeat(np.arange(len(_ORDER)), microbatches)
    kinds = np.array([int(kind) for kind, _ in _ORDER])[which]
    rows = []
    for rank in range(ranks):
        order = np.argsort(slots[rank][which] + INTERVAL * batches)
        stages = np.array([2 * ranks - 1 - rank if far else rank for _, far in _ORDER])[which]
        rows.append(((kinds * 2 * ranks + stages) * microbatches + batches)[order])
    return Rows(name, tuple(rows))


def lengths(slots: Ints, problem: SchedulingProblem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Makespan and largest bubble in a span, in ticks, of each block repeated with the shop's times.

    All blocks and ranks walk side by side, slot by slot: in each a rank has one operation, and what it needs was in a
    slot before.
    """
    count, ranks = problem.microbatches, problem.ranks
    owns, needs, begins, lag, ticks = _by_rest(slots, problem)
    free, ends = np.zeros(slots[..., 0].size), np.zeros(slots.size * count)
    for slot in range(int(slots.max()) + INTERVAL * count):
        rest = slot % INTERVAL
        batch = slot // INTERVAL - begins[rest]
        at = np.flatnonzero((batch >= 0) & (batch < count))
        entry = batch[at] * slots.size
        there = ends[entry + needs[rest][at]] + lag[rest][at]
        ends[entry + owns[rest][at]] = free[at] = np.maximum(there, free[at]) + ticks[rest][at]
    last = free.reshape(slots.shape[:2])
    begun = np.cumsum([0, *(problem.ticks(Kind.F, stage) + problem.hops[stage] for stage in range(ranks - 1))])
    return last.max(1), (last - (begun + np.array(problem.work))).max(1)


def _by_rest(slots: Ints, problem: SchedulingProblem) -> tuple[NDArray[Any], ...]:
    """By slot modulo six, block and rank: where an operation and what it needs are, when it begins, its lag and time.

    Operations lie by microbatch, block, rank and kind of `_ORDER`; one that needs nothing elsewhere has itself there,
    whose end is still 0. It begins with microbatch 0 after that many times six slots.
    """
    blocks, ranks, kinds = slots.shape
    last, rank = ranks - 1, np.arange(ranks)
    stages = np.stack([2 * ranks - 1 - rank if far else rank for _, far in _ORDER], -1)
    ticks = np.array(
        [[problem.ticks(kind, stage) for stage in range(problem.stages)] for kind in range(3)], dtype=float
    )
    hops = np.array([0, *problem.hops[:last]], dtype=float)
    own = np.arange(ranks)[:, None] * kinds + np.arange(kinds)
    need, lag = own.copy(), np.zeros((ranks, kinds))
    need[1:, 0], lag[:, 0] = own[:-1, 0], hops
    need[:-1, 1], need[last, 1], lag[:-1, 1] = own[1:, 1], own[last, 0], hops[1:]
    need[1:, 2], need[0, 2], lag[:, 2] = own[:-1, 2], own[0, 1], hops
    need[:-1, 3], need[last, 3], lag[:-1, 3] = own[1:, 3], own[last, 2], hops[1:]
    which = np.argsort(slots % INTERVAL, -1)
    at = np.arange(blocks)[:, None, None] * ranks * kinds
    times = ticks[[int(kind) for kind, _ in _ORDER], stages]
    chosen = [np.take_along_axis(each, which, -1) for each in (
        at + own, at + need, slots // INTERVAL,
        np.broadcast_to(lag, slots.shape), np.broadcast_to(times, slots.shape),
    )]  # fmt: skip
    return tuple(np.moveaxis(each, -1, 0).reshape(kinds, -1) for each in chosen)
