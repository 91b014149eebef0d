"""Captured steps: decodes alone run as a CUDA graph of the next larger size, and rows in excess are computed too."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2

from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.units import SECOND
from poise.cost.estimator_wrapper import EstimatorWrapper


def padded(decodes: int, sizes: Sequence[tuple[int, int]]) -> int:
    """The size of the graph that `decodes` requests run as: themselves beyond the largest.

    sizes: (step, upto): 1, 2 and 4, then multiples of the step up to there.
    """
    if decodes <= 4:
        return 1 << max(0, ceil(log2(max(decodes, 1))))
    for step, upto in sizes:
        if decodes <= upto:
            return ceil(decodes / step) * step
    return decodes


class Captured(EstimatorWrapper):
    """Decodes without prompts in their step cost what the next larger captured batch costs, but read their own KV.

    ranks: of attention, or stages, each of which runs a graph of its part of the decodes.  row_s: the inner
    estimator's host time of a sequence, which rows in excess have none of.
    """

    def __init__(self, inner: Estimator, sizes: Sequence[tuple[int, int]], ranks: int = 1, row_s: float = 0.0) -> None:
        super().__init__(inner)
        self.sizes = tuple((step, upto) for step, upto in sizes)
        self.ranks = ranks
        self.spared = row_s * SECOND

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`, decodes alone padded."""
        piece = self.inner.step(shape)
        if shape.chunks or not shape.decodes:
            return piece
        size = self.ranks * padded(ceil(shape.decodes / self.ranks), self.sizes)
        if size == shape.decodes:
            return piece
        whole = self.inner.step(shape._replace(decodes=size)).base - round(self.spared * (size - shape.decodes))
        return piece._replace(base=max(piece.base, whole))

    def describe(self) -> dict[str, object]:
        """The inner one's, and the sizes."""
        return {**self.inner.describe(), "captured": self.sizes}
