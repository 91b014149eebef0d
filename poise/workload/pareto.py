"""Power laws with a lower and an upper end, and the three that Llumnix was measured with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.workload.draw import positive

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pareto:
    """Pareto between `min` and `max`: P(X > x) = (x^−alpha − max^−alpha) / (min^−alpha − max^−alpha)."""

    min: float
    alpha: float
    max: float

    def __post_init__(self) -> None:
        positive("pareto: alpha", self.alpha)
        if positive("pareto: max", self.max) < positive("pareto: min", self.min):
            raise ScenarioError(f"pareto: max is {self.max}, below min {self.min}; swap them")

    def quantile(self, share: Floats) -> Floats:
        """Return the lengths that `share` of the draws, in [0, 1], stay below."""
        least = (self.min / self.max) ** self.alpha
        lengths: Floats = self.min * (1 - share * (1 - least)) ** (-1 / self.alpha)
        return lengths

    def draw(self, rng: np.random.Generator, rows: int) -> Floats:
        """Return draws by the inverse of the cumulative distribution."""
        return self.quantile(rng.random(rows))


SIZES = {"S": Pareto(20.5, 0.99, 6144), "M": Pareto(8.0, 0.47, 6144), "L": Pareto(4.5, 0.18, 6144)}
"""Fits to the power-law lengths of Llumnix (OSDI 2024, table of the evaluation): every published quantile within 10 %.

Means 128, 256 and 512 tokens, p99 1,464, 4,208 and 5,166. The paper publishes quantiles; the parameters are fitted.
"""


@dataclass(frozen=True, slots=True)
class Llumnix:
    """The short (S), medium (M) or long (L) power law of `SIZES`, for prompts or outputs."""

    size: str

    def __post_init__(self) -> None:
        if not isinstance(self.size, str) or self.size not in SIZES:
            raise ScenarioError(f"llumnix: size is {self.size!r}; it must be {', '.join(SIZES)}")

    def draw(self, rng: np.random.Generator, rows: int) -> Floats:
        """Return draws of the size's Pareto."""
        return SIZES[self.size].draw(rng, rows)
