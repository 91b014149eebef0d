"""The true number of output tokens, which only a simulation knows: the most that foretelling could ever bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from poise.core.chance import Chance
from poise.core.errors import PolicyError
from poise.core.request import RequestView


@dataclass(slots=True)
class Oracle:
    """Foretell the truth; PolicyError where nobody reveals it, as in a gateway."""

    _truth: Callable[[int], int] | None = field(default=None, init=False, repr=False, compare=False)

    def reveal(self, truth: Callable[[int], int]) -> None:
        """Output tokens by request id."""
        self._truth = truth

    def predict(self, request: RequestView, chance: Chance) -> int:
        """What the request will have."""
        if self._truth is None:
            raise PolicyError("oracle foretells what only a simulation knows; take history, or constant, here")
        return self._truth(request.id)

    def learn(self, request: RequestView, output_tokens: int) -> None:
        """Nothing to learn."""
