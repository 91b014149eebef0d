"""Speculative decoding: what a step costs per token where a draft head proposes several and one pass verifies them.

Leviathan et al. (arXiv 2211.17192, section 3.1): of k drafts, each kept with chance p while all before it were kept,
a step brings (1 - p^(k+1)) / (1 - p) tokens in the mean. DeepSeek-V3 (arXiv 2412.19437, section 5.4.3) keeps 85 to 90 %
of its first drafts; InferenceX measured 1.8 to 1.9 tokens a step for one draft of such heads and 2.5 to 3.0 for three
(golden_al_distribution, 2026), which p = 0.8 reaches.

The simulator gives every decode one token a step, so a step here is the part of a real one that brings one token.
"""

from __future__ import annotations

from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.spec import BITS, Pool
from poise.core.units import SECOND
from poise.cost.estimator_wrapper import EstimatorWrapper

ACCEPTANCE = 0.8
"""Chance that a draft is kept, all before it being kept."""


def accepted(drafts: int, acceptance: float = ACCEPTANCE) -> float:
    """Tokens that a step brings each request in the mean, the one that the model itself adds included."""
    return sum(acceptance**place for place in range(drafts + 1))


def attention_grows(pool: Pool, drafts: int) -> float:
    """How many times as long a pass attends for drafts + 1 queries as for one: at most once for each of them.

    KV is read once for all. One query's arithmetic takes x times as long as that reading, so it is
    max(1, (drafts + 1) x) / max(1, x). Latent attention with all heads on a device has x above 1, grouped heads far
    below.
    """
    model, device, bytes_each = pool.model, pool.device, BITS[pool.kv] / 8
    heads = model.heads / pool.tensor
    if model.mla is not None:
        row = model.mla.kv_rank + model.mla.rope_dim
        arithmetic, read = 2 * heads * (row + model.mla.kv_rank), row * bytes_each
    else:
        arithmetic = 4 * heads * model.head_dim
        read = 2 * max(model.kv_heads / pool.tensor, 1) * model.head_dim * bytes_each
    x = arithmetic / device.bf16_flops / (read / device.memory_bw)
    return max(1.0, (drafts + 1) * x) / max(1.0, x)


class Drafted(EstimatorWrapper):
    """Decodes verify `drafts` proposals of a head of one layer (MTP, EAGLE) in each pass.

    A pass computes drafts + 1 tokens of each request and reads its KV once; the head runs once for each draft, and is
    one more layer. draft_s: further time of each run of the head, which its engine launches by itself.
    """

    def __init__(
        self, inner: Estimator, pool: Pool, drafts: int, acceptance: float = ACCEPTANCE, draft_s: float = 0.0
    ) -> None:
        super().__init__(inner)
        self.layers, self.drafts = pool.model.layers, drafts
        self.accepted = accepted(drafts, acceptance)
        self.attention = attention_grows(pool, drafts)
        self.launch = draft_s * SECOND

    def step(self, shape: StepShape) -> Piece:
        """The part of a pass that yields each decode one token; prompts with it keep their cost."""
        if not shape.decodes:
            return self.inner.step(shape)
        alone = shape._replace(chunks=())
        single = self.inner.step(alone)
        verified = self.inner.step(alone._replace(decodes=shape.decodes * (self.drafts + 1)))
        drafting = self.drafts * (single.base / self.layers + self.launch)
        prompts = self.inner.step(shape).base - single.base if shape.chunks else 0
        parts = (verified.base + drafting, single.per_kv * self.attention, single.per_window * self.attention)
        base, per_kv, per_window = (round(part / self.accepted) for part in parts)
        return Piece(base + prompts, per_kv, per_window, single.until_kv)

    def describe(self) -> dict[str, object]:
        """The inner one's, and what a step brings."""
        return {**self.inner.describe(), "drafts": self.drafts, "tokens_a_step": self.accepted}
