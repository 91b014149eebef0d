"""Vocabulary parallelism with one barrier (Yeung et al., MLSys 2025, algorithm 2) on 1F1B."""

from __future__ import annotations

from dataclasses import replace

from poise.pipeline.costs import Costs
from poise.pipeline.memory import Limit
from poise.pipeline.schedule import Schedule
from poise.pipeline.shards import LATE, Sharded, most_alive
from poise.pipeline.time import time


def vocab_2(
    stages: int, microbatches: int, costs: Costs | None = None, alive: int | None = None,
    memory_limit: Limit | None = None,
) -> Schedule:  # fmt: skip
    """As `vocab_1`, but S has both products for the input's gradient as well, which the barrier behind S adds up.

    The last backward waits for that one only, T for the weight's gradient may come at any time. Peak p + 1 − r on rank
    r, or `alive` − r, or less within a limit. The last rank runs one forward between each forward and its backward, as
    in the paper's block. Never slower than `vocab_1` by more than a microbatch: where it would be, the best of other
    orders is taken, at last that of `vocab_1` with its memory (p + 2 − r). With one barrier that order is not slower,
    since each wait of algorithm 2 is one of algorithm 1 too.
    """
    costs = costs or Costs()
    own, most = (most_alive("vocab_2", stages, barriers, alive, memory_limit) for barriers in (1, 2))
    best = Sharded(stages, microbatches, costs, barriers=1, most=own, order=LATE, ahead=1)
    if best.makespan <= best.least + best.microbatch:
        return best.schedule("vocab_2")
    two = Sharded(stages, microbatches, costs, barriers=2, most=most)
    if best.makespan <= two.makespan + best.microbatch:
        return best.schedule("vocab_2")
    more = (Sharded(stages, microbatches, costs, barriers=1, most=each, order=LATE) for each in sorted({own, most}))
    found = [*(each.schedule("vocab_2") for each in (best, *more)), replace(two.schedule("vocab_2"), barriers=1)]
    return min(found, key=lambda each: time(each, costs).makespan)
