"""The true rate of arrivals, which only a simulation knows: the most that a forecast could ever bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from poise.core.chance import Chance
from poise.core.errors import PolicyError
from poise.core.units import SECOND


@dataclass(slots=True)
class Oracle:
    """Foretell the truth; PolicyError where nobody reveals it, as in a gateway."""

    _truth: Callable[[int, int], int] | None = field(default=None, init=False, repr=False, compare=False)

    def reveal(self, truth: Callable[[int, int], int]) -> None:
        """Arrivals from one instant until before another."""
        self._truth = truth

    def forecast(self, now: int, until: int, chance: Chance) -> float:
        """What will come."""
        if self._truth is None:
            raise PolicyError("oracle foretells what only a simulation knows; take recent, or constant, here")
        return self._truth(now, until) * SECOND / (until - now)
