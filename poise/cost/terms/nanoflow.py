"""NanoFlow: operators of two nano-batches overlap, each on the resource that it needs most.

Zhu et al. (arXiv 2408.12757, OSDI 2025). Sections 3 and 4: executed one after the other, the parts of an iteration that
arithmetic, memory and links bind add up; overlapped, the largest is left. Nano-batches read the weights once each.
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

SERIES, LARGEST, REACHED = 114 + 45 + 31, 114, 0.685
"""Published of LLaMA-2-70B on eight A100: milliseconds of arithmetic, memory and links of an iteration of 2,048 tokens,
after one another and the largest, and the part of the optimum, which is the largest alone, that NanoFlow reached."""

HIDDEN = (SERIES / LARGEST - 1 / REACHED) / (SERIES / LARGEST - 1)
"""What of the time that could be hidden was, if nothing else was lost: 0.31. An estimate of ours, on the low side."""


def optimum(pool: Pool, tokens: int) -> float:
    """Tokens per second and device in steps of `tokens` decodes where the datasheet's arithmetic alone takes time."""
    works = Works(pool)
    return tokens / (works.of(StepShape(tokens)).arithmetic.base / SECOND) / pool.devices / works.use.gemm_bf16


@dataclass(frozen=True, slots=True)
class NanoFlow:
    """overlap: the part of what could be hidden that is, in [0, 1]; 1 is the bound.  nano: batches that a step is cut
    into. A step whose operators would gain nothing is not cut.
    """

    hides: ClassVar[tuple[str, ...]] = ("arithmetic", "links", "memory")
    overlap: float = HIDDEN
    nano: int = 2

    def __post_init__(self) -> None:
        if not 0 <= self.overlap <= 1:
            raise ScenarioError(f"overlap {self.overlap} is no part of what could be hidden; give 0 up to 1")
        if self.nano < 2:
            raise ScenarioError(f"nano {self.nano}: one batch overlaps with nothing; give 2 or more")

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        """`inner` with operators overlapped."""
        return Overlapped(inner, pool, self)


class Overlapped(EstimatorWrapper):
    """Steps of which `overlap` of what could be hidden is; no shorter than their largest resource (`Work.bound`).

    With s in series and b the largest resource of a step in parts, it takes the inner one's time less
    overlap · (s − b). Sliding-window layers' reading is not overlapped.
    """

    def __init__(self, inner: Estimator, pool: Pool, term: NanoFlow) -> None:
        super().__init__(inner)
        self.works, self.term = Works(pool, efficiencies(inner)), term

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`: the inner one where overlapping would be longer."""
        piece = self.inner.step(shape)
        if piece.then is not None or not (shape.decodes or shape.chunks):
            return piece
        whole, cut = self.works.of(shape), self.works.of(shape, self.term.nano)
        alone = Line(piece.base, piece.per_kv)
        rest = alone.plus(whole.series, -self.term.overlap)
        lines = [alone, *cut[:3], *(rest.plus(line, self.term.overlap) for line in cut[:3])]
        return pieces(lines, _shorter, piece.per_window)

    def describe(self) -> dict[str, object]:
        """The inner one's, and how much overlaps."""
        return {**self.inner.describe(), "nanoflow": {"overlap": self.term.overlap, "nano": self.term.nano}}


def _shorter(values: Sequence[float]) -> float:
    alone, *cut = values
    return min(alone, max(cut))
