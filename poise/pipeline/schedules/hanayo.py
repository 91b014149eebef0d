"""Hanayo (Liu et al., SC 2023): a pipeline that runs over the ranks in waves, without copies of weights."""

from __future__ import annotations

from poise.core.errors import ScheduleError
from poise.pipeline.costs import Costs
from poise.pipeline.greedy import Order, deepest, freshest, greedy
from poise.pipeline.schedule import Schedule
from poise.pipeline.time import time

_ASSUMED = Costs.of(f=1, b=1, w=1)

_SHORT = 64


def hanayo(stages: int, microbatches: int, chunks: int = 2) -> Schedule:
    """`chunks` is twice the number of waves W; stages go 0…p − 1, p − 1…0, W times over.

    Bubble about (2p − 2) / (3pW + p − 1) of the makespan for one unit m = p at T_B + T_W = 2 T_F (loose at W = 1).
    The order is that of list scheduling at these times, without a bound on memory: the better of two rules
    (on the first 64 or 2p microbatches).
    """
    if chunks % 2:
        raise ScheduleError(f"hanayo: {chunks} chunks; a wave has two on every rank, so give an even number")
    wave = [*range(stages), *reversed(range(stages))]
    route = wave * (chunks // 2)

    def listed(first: Order, count: int) -> Schedule:
        durations = _ASSUMED.at(stages, len(route), count)
        return greedy([route] * count, durations, ranks=stages, split=False, first=first, name="hanayo")

    short = min(microbatches, max(_SHORT, 2 * stages))
    tried = [(listed(first, short), first) for first in (deepest, freshest)]
    best, first = min(tried, key=lambda each: time(each[0]).makespan)
    return best if short == microbatches else listed(first, microbatches)
