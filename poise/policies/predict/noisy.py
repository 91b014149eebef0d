"""The true number of output tokens times a log-normal error: a predictor of any chosen quality, for simulations only.

A prediction is the truth times exp(sigma·z), z standard normal by the Box-Muller transform from chance keyed by the
request; so the median error is 0, and under another policy the same request has the same prediction. `sigma` 0.5 means
that two of three lie within a factor 1.65. The client's own limit caps it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import cos, exp, log, pi, sqrt

from poise.core.chance import Chance
from poise.core.errors import PolicyError
from poise.core.request import RequestView


@dataclass(slots=True)
class Noisy:
    """Predict the true length with an error. sigma: standard deviation of its logarithm."""

    sigma: float = 0.5
    _truth: Callable[[int], int] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.sigma < 0:
            raise ValueError(f"sigma {self.sigma} is no spread; give 0 or more")

    def reveal(self, truth: Callable[[int], int]) -> None:
        """Receive the true output tokens by request id."""
        self._truth = truth

    def predict(self, request: RequestView, chance: Chance) -> int:
        """The request's true output tokens, with an error."""
        if self._truth is None:
            raise PolicyError("noisy needs lengths that only a simulation knows; take history, or constant, here")
        z = sqrt(-2 * log(1 - chance.draw("foretelling"))) * cos(2 * pi * chance.draw("foretelling angle"))
        guess = max(round(self._truth(request.id) * exp(self.sigma * z)), 1)
        return min(guess, request.max_tokens or guess)

    def learn(self, request: RequestView, output_tokens: int) -> None:
        """Nothing to learn."""
