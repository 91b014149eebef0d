"""The true number of output tokens, for simulations only: an upper bound on the gain of any predictor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from poise.core.chance import Chance
from poise.core.errors import PolicyError
from poise.core.request import RequestView


@dataclass(slots=True)
class Oracle:
    """Predict the true length; PolicyError where it is not available, as in a gateway."""

    _truth: Callable[[int], int] | None = field(default=None, init=False, repr=False, compare=False)

    def reveal(self, truth: Callable[[int], int]) -> None:
        """Receive the true output tokens by request id."""
        self._truth = truth

    def predict(self, request: RequestView, chance: Chance) -> int:
        """The request's true output tokens."""
        if self._truth is None:
            raise PolicyError("oracle needs lengths that only a simulation knows; take history, or constant, here")
        return self._truth(request.id)

    def learn(self, request: RequestView, output_tokens: int) -> None:
        """Nothing to learn."""
