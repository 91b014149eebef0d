"""The factor on the loss that keeps float16 gradients from vanishing (Micikevicius et al., arXiv 1710.03740, 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite


@dataclass
class LossScale:
    """torch.amp.GradScaler's rule, led by the norm over all ranks instead of each rank's gradients.

    A step whose norm is not finite is left out and halves the scale; `interval` good steps in a row double it.
    """

    scale: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000
    good: int = 0
    """Good steps since the last change."""

    def update(self, norm: float) -> bool:
        """Whether a step with this norm is to be taken; the scale of the next."""
        if not isfinite(norm):
            self.scale, self.good = self.scale * self.backoff, 0
            return False
        self.good += 1
        if self.good == self.interval:
            self.scale, self.good = self.scale * self.growth, 0
        return True
