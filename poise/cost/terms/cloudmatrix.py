"""CloudMatrix-Infer: a step in two microbatches, whose experts' exchanges run beside computation of the other one.

Zuo et al. (arXiv 2506.12708), section 4: while tokens of one microbatch are dispatched to their experts' ranks and
combined again, the other one computes, in prefill and in decoding. Halves read the weights and start every kernel once
each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from poise.core.errors import ScenarioError
from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.lines import Line, pieces
from poise.cost.work import Works, efficiencies


@dataclass(frozen=True, slots=True)
class CloudMatrix:
    """There is no parameter: a step is cut in two where that is shorter."""

    hides: ClassVar[tuple[str, ...]] = ("links",)

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` in microbatches; ScenarioError where no experts exchange tokens."""
        if pool.model.moe is None or pool.data == 1:
            raise ScenarioError(
                f"cloudmatrix: {pool.model.name} over {pool.data} data ranks exchanges no tokens of experts, so that "
                "there is nothing to hide; give a mixture of experts with 2 data ranks or more"
            )
        return Microbatched(inner, pool)


class Microbatched(EstimatorWrapper):
    """Steps whose exchanges hide behind the other half's computation, attention included, where that is shorter.

    Both halves' computation or both halves' exchanges take the time, whichever is longer, and then half of a layer's
    exchange, which nothing is left to hide.
    """

    def __init__(self, inner: Estimator, pool: Pool) -> None:
        super().__init__(inner)
        self.works, self.layers = Works(pool, efficiencies(inner)), pool.model.layers

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`, in two microbatches or as it was."""
        piece, tokens = self.inner.step(shape), self.works.tokens(shape).all
        if piece.then is not None or tokens < 2:
            return piece
        builder, k = self.works.lane(shape.share)
        line = builder.exchange()
        sent = (line.fixed_s + line.per_byte_s * tokens / 2) * SECOND
        parts = [k.attention(each.tokens, each.context, self.works.window) for each in shape.chunks]
        attention = sum(parts) * self.works.part
        rest = piece.base - self.layers * k.layer(tokens) - attention + sent
        computed = 2 * self.layers * (k.layer(tokens / 2) - sent) + attention
        alone, beside = Line(piece.base, piece.per_kv), Line(rest + computed, piece.per_kv)
        return pieces([alone, beside, Line(rest + 2 * self.layers * sent)], _shorter, piece.per_window)

    def describe(self) -> dict[str, object]:
        """The inner one's, and that steps are cut."""
        return {**self.inner.describe(), "cloudmatrix": {"microbatches": 2}}


def _shorter(values: Sequence[float]) -> float:
    alone, computed, sent = values
    return min(alone, max(computed, sent))
