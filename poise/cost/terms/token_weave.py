"""TokenWeave: the all-reduces of one half of a step's tokens overlap with the computation of the other half.

Gond et al. (arXiv 2505.11329, MLSys 2026). All-reduce and norm are one kernel on few SMs, in which each rank norms only
its part of the tokens. Only steps large enough are split: halves read the weights and start every kernel once each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from poise.core.errors import ScenarioError
from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.coefficients import ACTIVATION_BYTES
from poise.cost.estimator_wrapper import EstimatorWrapper, longer
from poise.cost.one_step import step_s
from poise.cost.work import Works, efficiencies

NORM_WIDTHS = 8
"""Widths of a token that the two norms of a layer move, with residuals (`Builder.elementwise`)."""

SMS = 8 / 132
"""The most SMs that the fused kernel takes (2 to 8, as published), of an H100's 132."""


@dataclass(frozen=True, slots=True)
class TokenWeave:
    """sms: the part of the SMs that communication takes from computation while both run.

    There is no threshold: a step is split where that is shorter, as the authors' tables by model and batch do.
    """

    hides: ClassVar[tuple[str, ...]] = ("links",)
    sms: float = SMS

    def __post_init__(self) -> None:
        if not 0 <= self.sms < 1:
            raise ScenarioError(f"sms {self.sms} is no part of a device's SMs; give 0 up to 1, without 1")

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` with woven all-reduces; itself where there are none."""
        return inner if pool.tensor == 1 else Woven(inner, pool, self)


class Saved(NamedTuple):
    """Of a step: the part of its time that weaving saves, and that of its all-reduces."""

    saved: float
    reduced: float


def saved(pool: Pool, prompt_tokens: int = 0, decodes: int = 0) -> Saved:
    """What weaving saves of a step of one whole prompt, or of decodes, by the roofline."""
    plain, woven = (
        step_s(pool, prompts=bool(prompt_tokens), prompt_tokens=prompt_tokens, decodes=decodes, terms=terms)
        for terms in ((), (TokenWeave(),))
    )
    reduced = Works(pool).reduced(1.0, prompt_tokens + decodes) * pool.model.layers / SECOND
    return Saved(1 - woven / plain, reduced / plain)


class Woven(EstimatorWrapper):
    """Steps whose all-reduces hide behind computation where that is shorter.

    A layer in halves takes the larger of both halves' computation and of their all-reduces, and at the end of a step
    half of the last all-reduce is exposed. KV reads of decodes hide nothing, which is conservative.
    """

    def __init__(self, inner: Estimator, pool: Pool, term: TokenWeave) -> None:
        super().__init__(inner)
        self.works, self.sms = Works(pool, efficiencies(inner)), term.sms
        self.layers, self.ranks = pool.model.layers, pool.tensor

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`, woven or as it was."""
        piece = self.inner.step(shape)
        gained = self.gained(shape)
        return longer(piece, -gained) if gained > 0 else piece

    def gained(self, shape: StepShape) -> float:
        """Picoseconds by which weaving shortens a step; below 0 where it would lengthen it."""
        _, k = self.works.lane(shape.share)
        tokens = self.works.tokens(shape).all
        if tokens < 2:
            return -1.0
        sent = self.works.reduced(shape.share, tokens)
        computed = k.layer(tokens) - sent
        norms = self._norms(shape.share, tokens)
        halves = 2 * (k.layer(tokens / 2) - self.works.reduced(shape.share, tokens / 2)) - norms
        links = self.works.reduced(shape.share, tokens, 2)
        attention = sum(k.attention(each.tokens, each.context, self.works.window) for each in shape.chunks)
        beside = halves + attention * self.works.part / self.layers
        woven = max(beside + self.sms * min(links, beside), links) + links / 4 / self.layers
        return self.layers * (computed + sent + beside - halves - woven)

    def _norms(self, share: float, tokens: float) -> float:
        """Picoseconds of a layer's norms that ranks no longer all compute."""
        builder, _ = self.works.lane(share)
        moved = NORM_WIDTHS * self.works.pool.model.hidden * ACTIVATION_BYTES * tokens
        return moved / (builder.bandwidth * self.works.use.stream_bf16) * (1 - 1 / self.ranks) * SECOND

    def describe(self) -> dict[str, object]:
        """The inner one's, and what communication takes."""
        return {**self.inner.describe(), "token_weave": {"sms": self.sms}}
