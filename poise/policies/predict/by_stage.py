"""The mean output of the same step of a program so far, in place of a workflow's profile.

HexGen-Text2SQL (arXiv 2505.05286) profiles the latency of each stage beforehand; here it is learnt. A stage (with its
model) without a finished request is predicted `first` tokens. No prediction exceeds the client's own limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.chance import Chance
from poise.core.request import RequestView


@dataclass(slots=True)
class ByStage:
    """Predict the mean of the stage. first: tokens, before any of it has finished."""

    first: int = 256
    _sums: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.first < 1:
            raise ValueError(f"first {self.first} is no length; give 1 or more")

    def predict(self, request: RequestView, chance: Chance) -> int:
        """The mean so far."""
        count, total = self._sums.get((request.model, request.stage), (0, 0))
        guess = max(round(total / count), 1) if count else self.first
        return min(guess, request.max_tokens or guess)

    def learn(self, request: RequestView, output_tokens: int) -> None:
        """Add the output to its stage's mean."""
        count, total = self._sums.get((request.model, request.stage), (0, 0))
        self._sums[request.model, request.stage] = count + 1, total + output_tokens
