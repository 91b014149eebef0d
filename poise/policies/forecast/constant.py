"""A constant rate: the baseline that other forecasts are compared with."""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.chance import Chance


@dataclass(slots=True)
class Constant:
    """Forecast `rate` requests per second."""

    rate: float

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ValueError(f"rate {self.rate} is no rate; give requests a second")

    def forecast(self, now: int, until: int, chance: Chance) -> float:
        """The rate."""
        return self.rate
