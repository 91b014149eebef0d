"""Chimera (Li and Hoefler, SC 2021): two pipelines in opposite directions over the same ranks."""

from __future__ import annotations

from poise.core.errors import ScheduleError
from poise.pipeline.costs import Costs
from poise.pipeline.greedy import greedy
from poise.pipeline.schedule import Schedule

_ASSUMED = Costs.of(f=1, b=1, w=1)


def chimera(stages: int, microbatches: int, alive: int | None = None) -> Schedule:
    """Weights twice: rank r has stages r and p − 1 − r; half of the microbatches enter at each end; p and m are even.

    Makespan 16 at p = m = 4 and 36 at p = m = 8 for T_F = 1, T_B + T_W = 2, with peaks from p / 2 + 1 on the outer
    ranks to p on the middle ones. The paper lays one unit of p microbatches and repeats it; here list scheduling at
    these times, backwards first, lays all of them, with at most `alive` of one direction on a rank (default p).
    """
    if stages % 2 or microbatches % 2:
        raise ScheduleError(f"chimera: {stages} stages and {microbatches} microbatches must both be even; give such")
    down = range(stages)
    routes = [down if batch < microbatches // 2 else down[::-1] for batch in range(microbatches)]
    durations = _ASSUMED.at(stages, stages, microbatches)
    return greedy(routes, durations, ranks=stages, split=False, alive=alive or stages, name="chimera")
