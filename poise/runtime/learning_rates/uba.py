"""The unified budget-aware schedule (Tang et al., "Stepsize anything", NeurIPS 2025, arXiv 2505.24452)."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi


@dataclass(frozen=True)
class Uba:
    """2(1 + c) / (2φ + (2 - φ)(1 + c)) with c = cos(πt/T), down to `end`.

    phi: 2 is the cosine; less keeps the rate high for longer, more decays early, which the paper advises for a larger
    condition number of the loss (quadratics want the opposite: `poise claim uba`); the default, 1, lies between. The
    paper's cycles are not built: one budget is one cycle.
    """

    phi: float = 1.0
    end: float = 0.0

    def at(self, done: float) -> float:
        """The factor on the peak."""
        wave = 1 + cos(pi * done)
        return self.end + (1 - self.end) * 2 * wave / (2 * self.phi + (2 - self.phi) * wave)
