"""The same number of output tokens for all requests: the baseline of predictors."""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.chance import Chance
from poise.core.request import RequestView


@dataclass(slots=True)
class Constant:
    """Predict `tokens`, or the client's own limit where that is less."""

    tokens: int = 256

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"tokens {self.tokens} is no output; give 1 or more")

    def predict(self, request: RequestView, chance: Chance) -> int:
        """Always the same."""
        return min(self.tokens, request.max_tokens or self.tokens)

    def learn(self, request: RequestView, output_tokens: int) -> None:
        """Nothing to learn."""
