"""Vocabulary parallelism with two barriers (Yeung et al., MLSys 2025, algorithm 1) on 1F1B."""

from __future__ import annotations

from poise.pipeline.costs import Costs
from poise.pipeline.memory import Limit
from poise.pipeline.schedule import Schedule
from poise.pipeline.shards import Sharded, most_alive


def vocab_1(
    stages: int, microbatches: int, costs: Costs | None = None, alive: int | None = None,
    memory_limit: Limit | None = None,
) -> Schedule:  # fmt: skip
    """The output layer is cut over all ranks: S has logits and a local softmax, T the gradients of input and weight.

    A barrier behind S exchanges maximum and sum, one behind T adds up the input's gradient, which the last backward
    needs. Peak p + 2 − r on rank r, as in the paper, or `alive` − r, or less within a limit. The paper repeats a block;
    here list scheduling at the given costs lays the passes (shards.py), with the same peak.
    """
    most = most_alive("vocab_1", stages, 2, alive, memory_limit)
    return Sharded(stages, microbatches, costs or Costs(), barriers=2, most=most).schedule("vocab_1")
