"""Introspective diffusion (I-DLM): each pass verifies a stride of proposals and makes the next, under causal attention.

I-DLM (arXiv 2604.11035). A pass over 2N − 1 queries checks N − 1 proposals and makes as many, each kept with chance p
while those before it were kept. A stationary batch keeps its composition over the passes of a stride, so that the host
prepares it once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from poise.core.errors import ScenarioError
from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.drafted import attention_grows
from poise.cost.efficiency import Efficiencies
from poise.cost.estimator_wrapper import EstimatorWrapper

_HOST = Efficiencies()


def tokens_a_pass(stride: int, acceptance: float) -> float:
    """TPF = (2 + Σ_{k=1..N−2} p^k) / (2 − p^(N−1)): tokens that a pass brings each request in the mean."""
    if stride < 2 or not 0 <= acceptance <= 1:
        raise ScenarioError(f"stride {stride}, acceptance {acceptance}: give 2 or more, and a chance of 0 up to 1")
    kept = sum(acceptance**k for k in range(1, stride - 1))
    return (2 + kept) / (2 - acceptance ** (stride - 1))


@dataclass(frozen=True, slots=True)
class IntrospectiveDiffusion:
    """stride: N.  acceptance: p, 0.9 in the paper's example.  stationary: whether a batch stays over a stride.

    step_s, sequence_s: host time of a pass, and of each sequence in it, that a stationary batch has once a stride; the
    roofline's by default.
    """

    takes: ClassVar[tuple[str, ...]] = ("decodes",)
    stride: int = 4
    acceptance: float = 0.9
    stationary: bool = True
    step_s: float = _HOST.cpu_step_s
    sequence_s: float = _HOST.cpu_sequence_s

    def __post_init__(self) -> None:
        tokens_a_pass(self.stride, self.acceptance)
        if self.step_s < 0 or self.sequence_s < 0:
            raise ScenarioError(f"step_s {self.step_s} and sequence_s {self.sequence_s} are durations; give 0 or more")

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` whose decodes bring several tokens a pass."""
        return Strided(inner, pool, self)


class Strided(EstimatorWrapper):
    """A step is the part of a pass that yields each decode one token; prompts with it keep their cost."""

    def __init__(self, inner: Estimator, pool: Pool, term: IntrospectiveDiffusion) -> None:
        super().__init__(inner)
        self.term, self.data = term, pool.data
        self.queries = 2 * term.stride - 1
        self.brings = tokens_a_pass(term.stride, term.acceptance)
        self.attention = attention_grows(pool, self.queries - 1)

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`."""
        if not shape.decodes:
            return self.inner.step(shape)
        alone = shape._replace(chunks=())
        inner_cost = self.inner.step(alone._replace(decodes=shape.decodes * self.queries))
        prompts = self.inner.step(shape).base - self.inner.step(alone).base if shape.chunks else 0
        return self._part(inner_cost, self._spared(shape.decodes), prompts)

    def _spared(self, decodes: int) -> float:
        """Picoseconds of the host: later passes of a stationary batch, and queries, which are no sequences."""
        per = self.term.sequence_s / self.data
        inner_cost = per * decodes * (self.queries - 1)
        if not self.term.stationary:
            return inner_cost * SECOND
        return (inner_cost + (1 - 1 / self.term.stride) * (self.term.step_s + per * decodes)) * SECOND

    def _part(self, piece: Piece, spared: float, prompts: int) -> Piece:
        base = max(piece.base - spared, 0.0) / self.brings
        per_kv, per_window = (round(part * self.attention / self.brings) for part in piece[1:3])
        then = None if piece.then is None else self._part(piece.then, spared, prompts)
        return Piece(max(round(base) + prompts, 1), per_kv, per_window, piece.until_kv, then)

    def describe(self) -> dict[str, object]:
        """The inner one's, and what a pass brings."""
        facts = {"stride": self.term.stride, "tokens_a_pass": self.brings, "stationary": self.term.stationary}
        return {**self.inner.describe(), "introspective_diffusion": facts}
