"""MoE++: beside experts that compute there are some that give nothing, the token itself, or a constant; a token that
needs less takes those.

Jin et al. (2410.07348). Top-k over all; `tau` τ below 1 gives computing experts less room and the others less weight
in the loss of balance, so that more tokens skip. Zero, copy and constant experts are on every rank: no exchange.

Parameters: `ffn`, `zero`, `copy`, `constant` experts of each kind, in this order (8, 1, 1, 2). `k` (2). `tau` (0.75).
`gamma` (1.1): room over the expected load.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poise.experts.routers.auxiliary import balance_loss, frequencies
from poise.experts.routers.routing import Routed, checked, gates_of, softmax, stateless, top, within


@dataclass(frozen=True, slots=True)
class MoePlusPlus:
    """Top-k over experts of four kinds."""

    ffn: int = 8
    zero: int = 1
    copy: int = 1
    constant: int = 2
    k: int = 2
    tau: float = 0.75
    gamma: float = 1.1

    @property
    def free(self) -> int:
        """Experts that compute next to nothing."""
        return self.zero + self.copy + self.constant

    @property
    def part(self) -> float:
        """Of all choices those of computing experts, when loads are as the loss asks: τ N / (τ N + free)."""
        return self.tau * self.ffn / (self.tau * self.ffn + self.free)

    def capacities(self, tokens: int) -> NDArray[Any]:
        """(experts) tokens that each takes: γ τ T k / (τ N + free) where it computes, without τ where not."""
        each = self.gamma * tokens * self.k / (self.tau * self.ffn + self.free)
        return np.array([ceil(self.tau * each)] * self.ffn + [ceil(each)] * self.free)

    def start(self, experts: int) -> NDArray[Any]:
        """Nothing."""
        return stateless()

    def route(self, scores: ArrayLike, state: NDArray[Any]) -> Routed:
        """The largest scores, as far as experts have room; gates are the scores."""
        given = checked(scores, self.k)
        chosen = within(top(given, self.k), self.capacities(len(given)))
        return Routed(chosen, gates_of(given, chosen, normal=False), state)

    def loss(self, scores: NDArray[Any], loads: NDArray[Any]) -> float:
        """The loss of balance, with weight τ for experts that do not compute."""
        weights = np.array([1.0] * self.ffn + [self.tau] * self.free)
        return balance_loss(scores, frequencies(loads), weights)


def constant(hidden: NDArray[Any], vector: NDArray[Any], mixing: NDArray[Any]) -> NDArray[Any]:
    """The constant expert: α₁ x + α₂ v with α = softmax(x W). vector: (width).  mixing: (width × 2)."""
    alpha = softmax(hidden @ mixing)
    found: NDArray[Any] = alpha[:, :1] * hidden + alpha[:, 1:] * vector
    return found


def with_residual(logits: NDArray[Any], before: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]:
    """Logits of a layer with those of the layer before, through (experts × experts) weights."""
    found: NDArray[Any] = logits + before @ weight.T
    return found
