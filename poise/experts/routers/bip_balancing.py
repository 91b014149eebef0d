"""BIP balancing: a few dual steps of the assignment problem of each batch, then top-k of what is left of scores.

Sun (2502.15451), algorithm 1. Maximise the sum of scores with at most k experts of a token and at most tokens · k /
experts tokens of an expert. `iterations` times: a token's price is the (k+1)-th largest of its scores less the
experts' prices, an expert's price the first that does not fit of its scores less the tokens' prices, and neither is
below 0. Top-k of scores less experts' prices; gates are those of the scores alone.

Parameters: `k` (2). `iterations` T (4; published are 2, 4, 8 and 14). `reset` (False): whether a batch starts from
prices of 0, and not from those of the batch before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poise.experts.routers.routing import Routed, checked, gates_of, top


@dataclass(frozen=True, slots=True)
class BipBalancing:
    """Prices of experts, found batch by batch. Its state is the prices."""

    k: int = 2
    iterations: int = 4
    reset: bool = False
    normal: bool = True

    def start(self, experts: int) -> NDArray[Any]:
        """Prices of 0."""
        return np.zeros(experts)

    def route(self, scores: ArrayLike, state: NDArray[Any]) -> Routed:
        """The largest scores less prices."""
        given = checked(scores, self.k)
        prices = np.zeros_like(state) if self.reset else state
        for _ in range(self.iterations):
            prices = next_prices(given, prices, self.k)
        chosen = top(given - prices, self.k)
        return Routed(chosen, gates_of(given, chosen, normal=self.normal), prices)


def next_prices(scores: NDArray[Any], prices: NDArray[Any], k: int) -> NDArray[Any]:
    """The experts' prices after one step of both sides."""
    tokens, experts = scores.shape
    of_tokens = np.maximum(0.0, _after(scores - prices, k))
    found: NDArray[Any] = np.maximum(0.0, _after((scores - of_tokens[:, None]).T, tokens * k // experts))
    return found


def _after(values: NDArray[Any], first: int) -> NDArray[Any]:
    """Of each row the largest after the `first` ones; 0 where there are no more."""
    if first >= values.shape[1]:
        return np.zeros(len(values))
    found: NDArray[Any] = -np.partition(-values, first, axis=1)[:, first]
    return found
