"""Gather prompts before a step computes any: fewer, fuller steps disturb decodes less, and first tokens wait longer.

TensorRT-LLM (tensorrt_llm/_torch/pyexecutor/py_executor.py, 1.0 and later) does so on request, while decodes run:
`batch_wait_timeout_iters` and `batch_wait_max_tokens_ratio` hold prompts until a step would have that part of its
budget, or for that many steps (`_waiting_requests`); under attention data parallelism `attention_dp_config` with
`enable_balance` holds them until every rank has one, or for `timeout_iters` steps (`_balance_adp_requests`). Batches
are else those of `chunked`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.action import ONE_STEP, Batch
from poise.core.view import LaneView
from poise.policies.batch.chunked import Chunked

HELD = Batch((), hold=ONE_STEP)


@dataclass(slots=True)
class Gathered(Chunked):
    """Compose TensorRT-LLM's batch; `tokens` and `long_prefill` as in `Chunked`.

    timeout_iters: decode steps that waiting prompts are held at most.  max_tokens_ratio: the part of a step's budget
    that ends the wait, 0 for none.  ranks: ranks of attention that must each have a prompt, of which n come by n · Hₙ
    prompts in the mean where each goes to any rank (1: any prompt ends the wait, unless a ratio is given).
    """

    timeout_iters: int = 0
    max_tokens_ratio: float = 0.0
    ranks: int = 1
    _since: int = field(default=-1, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.timeout_iters < 0 or self.ranks < 1 or not 0 <= self.max_tokens_ratio <= 1:
            raise ValueError("timeout_iters is 0 or more, ranks 1 or more, and max_tokens_ratio lies in [0, 1]")

    def batch(self, lane: LaneView) -> Batch:
        """As `Chunked`, once prompts have been gathered; decodes alone until then."""
        waiting = lane.waiting if lane.spec.prefill else 0
        if not waiting or lane.prefilling or not lane.decoding:
            self._since = -1
            return Chunked.batch(self, lane)
        if self._since < 0:
            self._since = lane.decode_steps
        if lane.decode_steps - self._since < self.timeout_iters and not self._gathered(lane, waiting):
            return HELD
        batch = Chunked.batch(self, lane)
        if batch.entries:
            self._since = -1  # without room the wait is over all the same
        return batch

    def _gathered(self, lane: LaneView, waiting: int) -> bool:
        """Whether every rank has a prompt, and enough tokens wait."""
        if waiting < self.ranks * sum(1 / rank for rank in range(1, self.ranks + 1)):
            return False
        wanted = self.max_tokens_ratio * (self.tokens or lane.engine.token_budget) - lane.decoding
        for sequence in lane.queue():
            if wanted <= 0:
                break
            wanted -= sequence.need - lane.cached(sequence)
        return wanted <= 0
