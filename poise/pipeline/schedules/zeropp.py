"""ZeroPP (Tang et al., 2024): blocks of microbatches; weight gradients fill the gaps, blocks reuse the memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScheduleError
from poise.pipeline.costs import Costs
from poise.pipeline.graph import Ints
from poise.pipeline.greedy import greedy
from poise.pipeline.schedule import Schedule
from poise.pipeline.time import time


def zeropp(
    stages: int, microbatches: int, chunks: int = 2, unit: int | None = None, costs: Costs | None = None
) -> Schedule:  # fmt: skip
    """Makespan 3m + (p − 1) / v at T_F = T_B = T_W; peak `unit` (default p, at least p) on every rank.

    Rank r has chunks r, p + r, …; each processes the microbatches of a unit before the next chunk. The span bubble
    is about (p − 1) / v at a unit of p and none from 2p − 1 on. With sharded weights a chunk is gathered for each run
    of operations on it (`gathers.py`), in the paper twice per unit, and reduced once. The order is that of list
    scheduling with at most that many activations on a rank, at T_F = T_B = T_W or at `costs`, whichever is faster
    and leaves room to go on.
    """
    size = min(unit or stages, max(stages, microbatches))
    if size < stages:
        raise ScheduleError(f"zeropp: unit {size} is less than the {stages} stages; give at least {stages}")
    plain = _listed(stages, microbatches, chunks, size, Costs())
    if costs is None:
        return plain
    try:
        fitted = _listed(stages, microbatches, chunks, size, costs)
    except ScheduleError:  # no room to go on at these times
        return plain
    return min(plain, fitted, key=lambda each: time(each, costs).makespan)


def _listed(stages: int, microbatches: int, chunks: int, size: int, costs: Costs) -> Schedule:
    def first(forward: NDArray[np.bool_], stage: Ints, microbatch: Ints) -> tuple[Ints, ...]:
        return np.where(forward, microbatch // size, 0), np.where(forward, stage, -stage), microbatch

    route = [*range(stages)] * chunks
    durations = costs.at(stages, len(route), microbatches)
    return greedy(
        [route] * microbatches, durations, ranks=stages, split=True, first=first, most=size * chunks, name="zeropp"
    )
