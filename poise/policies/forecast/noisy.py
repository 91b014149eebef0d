"""The true rate of arrivals times a log-normal error: a forecast of any chosen quality, for simulations only.

The error is exp(sigma·z), z standard normal by the Box-Muller transform from chance keyed by the decision, so that the
errors of two decisions are independent; the median error is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import cos, exp, log, pi, sqrt

from poise.core.chance import Chance
from poise.core.errors import PolicyError
from poise.core.units import SECOND


@dataclass(slots=True)
class Noisy:
    """Forecast the true rate with an error. sigma: standard deviation of its logarithm."""

    sigma: float = 0.3
    _truth: Callable[[int, int], int] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.sigma < 0:
            raise ValueError(f"sigma {self.sigma} is no spread; give 0 or more")

    def reveal(self, truth: Callable[[int, int], int]) -> None:
        """Receive the true number of arrivals in [since, until)."""
        self._truth = truth

    def forecast(self, now: int, until: int, chance: Chance) -> float:
        """The true rate, with an error."""
        if self._truth is None:
            raise PolicyError("noisy needs arrivals that only a simulation knows; take recent, or constant, here")
        z = sqrt(-2 * log(1 - chance.draw("forecast"))) * cos(2 * pi * chance.draw("forecast angle"))
        return self._truth(now, until) * SECOND / (until - now) * exp(self.sigma * z)
