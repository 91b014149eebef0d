"""Expert choice: each expert takes the tokens with its largest scores, equally many, and a token has any number of
experts.

Zhou et al. (2202.09368); with a capacity by the part of tokens that are masked, for diffusion language models
(code: zhangshuibai/EC-DLM). Which experts a token has depends on later tokens, so it is for models that are not
causal.

Parameters: `k` (2 experts of a token in the mean). `slope` (0): with a part t of tokens masked, capacity is
1 + slope · (1 − 2t) times as large: of mean 1 over an even t, and larger where few are masked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poise.experts.routers.routing import NONE, Routed, checked, gates_of, stateless, top


@dataclass(frozen=True, slots=True)
class ExpertChoice:
    """Equal loads by construction."""

    k: float = 2
    slope: float = 0.0

    def at(self, masked: float) -> ExpertChoice:
        """The router where this part of tokens is masked, 0 to 1."""
        return replace(self, k=self.k * (1 + self.slope * (1 - 2 * masked)), slope=0.0)

    def capacity(self, tokens: int, experts: int) -> int:
        """Tokens of each expert, at least one and at most all."""
        return max(1, min(tokens, round(tokens * self.k / experts)))

    def start(self, experts: int) -> NDArray[Any]:
        """Nothing."""
        return stateless()

    def route(self, scores: ArrayLike, state: NDArray[Any]) -> Routed:
        """The tokens of each expert, turned to the experts of each token; gates are the scores."""
        given = checked(scores)
        tokens, experts = given.shape
        taken = np.zeros((tokens, experts), dtype=bool)
        np.put_along_axis(taken, top(given.T, self.capacity(tokens, experts)).T, True, axis=0)
        most = int(taken.sum(axis=1).max())
        places = top(np.where(taken, given, -1.0), most)
        chosen = np.where(np.take_along_axis(taken, places, axis=1), places, NONE)
        return Routed(chosen, gates_of(given, chosen, normal=False), state)
