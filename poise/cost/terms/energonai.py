"""EnergonAI: prompts of a batch are not padded to the longest, and stages hand over without waiting.

Du et al. (arXiv 2209.02341). The engines that are simulated pad nothing and wait for nothing, so this term says what
they would cost if they did: the engine that EnergonAI was compared with.
"""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.estimate import Chunk, Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.work import Works, efficiencies


@dataclass(frozen=True, slots=True)
class EnergonAI:
    """padding: every prompt of a step costs what its longest does.  blocking: a stage sends before it continues, so
    that neither side computes meanwhile. Without both, costs are those of the inner estimator.
    """

    padding: bool = False
    blocking: bool = False

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` with what EnergonAI takes away."""
        return Waiting(inner, pool, self) if self.padding or self.blocking else inner


class Waiting(EstimatorWrapper):
    """Steps of padded prompts, or of stages that wait for their sends.

    A microbatch's way has a hop a stage, which the inner estimator counts. A blocking sender is kept from its next
    microbatch by as much again.
    """

    def __init__(self, inner: Estimator, pool: Pool, term: EnergonAI) -> None:
        super().__init__(inner)
        self.works, self.term, self.layers = Works(pool, efficiencies(inner)), term, pool.model.layers

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`."""
        if self.term.padding and shape.chunks:
            shape = shape._replace(chunks=padded(shape.chunks))
        piece = self.inner.step(shape)
        return self._later(piece, self._sends(shape)) if self.term.blocking else piece

    def _sends(self, shape: StepShape) -> int:
        builder, _ = self.works.lane(shape.share)
        line, tokens = builder.hop(), self.works.tokens(shape).all
        return round(self.layers * (line.fixed_s + line.per_byte_s * tokens) * SECOND) if tokens else 0

    def _later(self, piece: Piece, sends: int) -> Piece:
        then = None if piece.then is None else self._later(piece.then, sends)
        return piece._replace(base=piece.base + sends, then=then)

    def describe(self) -> dict[str, object]:
        """The inner one's, and what is waited for."""
        facts = {"padding": self.term.padding, "blocking": self.term.blocking}
        return {**self.inner.describe(), "energonai": facts}


def padded(chunks: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
    """Chunks as long as the longest of them."""
    longest = max(each.tokens for each in chunks)
    return tuple(each._replace(tokens=longest) for each in chunks)
