"""Warm-up, stable, decay (Hu et al., arXiv 2404.06395, section 4; cool-downs of Hägele et al., arXiv 2405.18392)."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True)
class Wsd:
    """The peak, and over the last part `decay` of the run 1 - sqrt(x) or 1 - x, down to `end`.

    `shape` sqrt and a decay of 0.2 are what Hägele et al. recommend (section 4.1).
    """

    decay: float = 0.2
    shape: str = "sqrt"
    end: float = 0.0

    def at(self, done: float) -> float:
        """The factor on the peak."""
        gone = (done - (1 - self.decay)) / self.decay
        if gone <= 0:
            return 1.0
        left = 1 - (sqrt(gone) if self.shape == "sqrt" else gone)
        return self.end + (1 - self.end) * max(0.0, left)
