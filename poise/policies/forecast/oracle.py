"""The true rate of arrivals, for simulations only: an upper bound on the gain of any forecast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from poise.core.chance import Chance
from poise.core.errors import PolicyError
from poise.core.units import SECOND


@dataclass(slots=True)
class Oracle:
    """Forecast the true rate; PolicyError where it is not available, as in a gateway."""

    _truth: Callable[[int, int], int] | None = field(default=None, init=False, repr=False, compare=False)

    def reveal(self, truth: Callable[[int, int], int]) -> None:
        """Receive the true number of arrivals in [since, until)."""
        self._truth = truth

    def forecast(self, now: int, until: int, chance: Chance) -> float:
        """The true rate."""
        if self._truth is None:
            raise PolicyError("oracle needs arrivals that only a simulation knows; take recent, or constant, here")
        return self._truth(now, until) * SECOND / (until - now)
