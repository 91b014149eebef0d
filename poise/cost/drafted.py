"""Speculative decoding: what a step costs per token where several are proposed and one pass verifies them.

Leviathan et al. (arXiv 2211.17192, section 3.1): of k drafts, each kept with chance p while all before it were kept,
a step brings (1 - p^(k+1)) / (1 - p) tokens in the mean. Measured heads keep deeper drafts less often than their first
one, so the tokens of a pass are an input here (`poise.catalogue.drafts` has what was measured).

The simulator gives every decode one token a step, so a step here is the part of a real one that brings one token.
"""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.errors import UserError
from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.spec import BITS, Pool
from poise.core.units import SECOND
from poise.cost.estimator_wrapper import EstimatorWrapper


def accepted(drafts: int, acceptance: float) -> float:
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


@dataclass(frozen=True, slots=True)
class Drafting:
    """How tokens are proposed.

    drafts: proposals one after another in each pass.  tokens: what a pass brings a request in the mean, the model's own
    included: 1 to drafts + 1.  verified: tokens that a pass computes for a request, 0 for drafts + 1; a tree has more.
    layers: of the head, which runs once for each draft; 0 where proposals come from the text (n-grams).
    launch_s: further time of each run of the head, which its engine launches by itself.
    """

    drafts: int
    tokens: float
    verified: int = 0
    layers: float = 1.0
    launch_s: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.tokens <= self.drafts + 1:
            raise UserError(
                f"a pass with {self.drafts} drafts brings 1 to {self.drafts + 1} tokens, not {self.tokens:g}"
            )
        if self.verified and self.verified <= self.drafts:
            raise UserError(
                f"{self.verified} verified tokens do not hold {self.drafts} drafts and the token before them; give more"
            )

    @property
    def queries(self) -> int:
        """Tokens that a pass computes for a request."""
        return self.verified or self.drafts + 1


class Drafted(EstimatorWrapper):
    """Decodes verify several proposals in each pass, which computes them all and reads the KV of each request once.

    draft: the estimator of a draft model on the same devices, which decodes once for each proposal in place of a head.
    """

    def __init__(self, inner: Estimator, pool: Pool, how: Drafting, draft: Estimator | None = None) -> None:
        super().__init__(inner)
        self.how, self.draft = how, draft
        self.head = how.layers / pool.model.layers
        self.attention = attention_grows(pool, how.queries - 1)

    def step(self, shape: StepShape) -> Piece:
        """The part of a pass that yields each decode one token; prompts with it keep their cost."""
        if not shape.decodes:
            return self.inner.step(shape)
        alone, how = shape._replace(chunks=()), self.how
        single = self.inner.step(alone)
        verified = self.inner.step(alone._replace(decodes=shape.decodes * how.queries))
        runs = self._drafting(alone, single)
        prompts = self.inner.step(shape).base - single.base if shape.chunks else 0
        parts = (
            verified.base + runs.base,
            single.per_kv * self.attention + runs.per_kv,
            single.per_window * self.attention + runs.per_window,
        )
        base, per_kv, per_window = (round(part / how.tokens) for part in parts)
        return Piece(base + prompts, per_kv, per_window, single.until_kv)

    def _drafting(self, alone: StepShape, single: Piece) -> Piece:
        """All runs that propose the drafts of a pass."""
        runs = self.how.drafts
        if self.draft is None:
            head = runs * self.head * single.base + runs * (self.how.launch_s * SECOND if self.head else 0.0)
            return Piece(round(head), 0, 0, single.until_kv)
        piece = self.draft.step(alone)
        return Piece(runs * piece.base, runs * piece.per_kv, runs * piece.per_window, piece.until_kv)

    def describe(self) -> dict[str, object]:
        """The inner one's, and what a step brings."""
        return {**self.inner.describe(), "drafts": self.how.drafts, "tokens_a_step": self.how.tokens}
