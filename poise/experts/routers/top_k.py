"""Top-k: the experts with the largest scores, in all or as far as they have room; the baseline of all routers.

Switch Transformer (2101.03961), GShard (2006.16668). An expert takes `capacity` times the mean load, rounded up, and
tokens beyond it skip the expert.

Parameters: `k` (2 experts of a token). `capacity` (None: no limit, dropless). `normal` (True): gates sum to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poise.experts.routers.routing import Routed, checked, gates_of, stateless, top, within


@dataclass(frozen=True, slots=True)
class TopK:
    """The largest scores."""

    k: int = 2
    capacity: float | None = None
    normal: bool = True

    def start(self, experts: int) -> NDArray[Any]:
        """Nothing."""
        return stateless()

    def route(self, scores: ArrayLike, state: NDArray[Any]) -> Routed:
        """The largest scores, as far as experts have room."""
        given = checked(scores, self.k)
        tokens, experts = given.shape
        chosen = top(given, self.k)
        if self.capacity is not None:
            chosen = within(chosen, np.full(experts, ceil(self.capacity * tokens * self.k / experts)))
        return Routed(chosen, gates_of(given, chosen, normal=self.normal), state)
