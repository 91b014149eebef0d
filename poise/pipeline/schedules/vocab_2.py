"""Vocabulary parallelism with one barrier (Yeung et al., MLSys 2025, algorithm 2) on 1F1B."""

from __future__ import annotations

from poise.pipeline.costs import Costs
from poise.pipeline.memory import Limit
from poise.pipeline.schedule import Schedule
from poise.pipeline.shards import sharded


def vocab_2(
    stages: int, microbatches: int, costs: Costs | None = None, alive: int | None = None,
    memory_limit: Limit | None = None,
) -> Schedule:  # fmt: skip
    """As `vocab_1`, but S has both products for the input's gradient as well, which the barrier behind S adds up.

    The last backward waits for that one only, T for the weight's gradient may come at any time. Peak p + 1 − r on rank
    r, or `alive` − r, or less within a limit.
    """
    return sharded("vocab_2", stages, microbatches, 1, costs, alive, memory_limit)
