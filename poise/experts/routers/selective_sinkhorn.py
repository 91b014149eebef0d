"""Selective Sinkhorn Routing: on some steps gates are those of a balanced transport of tokens to experts.

Nguyen et al. (2511.08972). Tokens have mass 1 / tokens and experts 1 / experts; the plan is diag(u) K diag(v) with K
= scores^(1/ε), which for softmax scores is exp(logits / ε). Top-k of each token's row, renormalised; all other steps
take top-k of the scores. There is no auxiliary loss and no noise.

Parameters: `k` (2). `iterations` (3). `epsilon` ε (1). `part` (1): of steps that are balanced, each by chance with
`seed` (0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poise.experts.routers.routing import Routed, checked, gates_of, top


@dataclass(frozen=True, slots=True)
class SelectiveSinkhorn:
    """Top-k of a transport plan. Its state is the number of steps."""

    k: int = 2
    iterations: int = 3
    epsilon: float = 1.0
    part: float = 1.0
    seed: int = 0

    def start(self, experts: int) -> NDArray[Any]:
        """No step."""
        return np.zeros(1)

    def route(self, scores: ArrayLike, state: NDArray[Any]) -> Routed:
        """The largest of the plan, or of the scores."""
        given = checked(scores, self.k)
        balanced = np.random.default_rng((self.seed, int(state[0]))).random() < self.part
        plan = transport(given, self.iterations, self.epsilon) if balanced else given
        chosen = top(plan, self.k)
        return Routed(chosen, gates_of(plan, chosen), state + 1)


def transport(scores: NDArray[Any], iterations: int, epsilon: float = 1.0) -> NDArray[Any]:
    """(tokens × experts) the plan after so many scalings of rows and then columns; columns sum to 1 / experts.

    Where no score of an expert is above 0, its column stays 0.
    """
    tokens, experts = scores.shape
    kernel = scores ** (1 / epsilon)
    columns = np.ones(experts)
    rows = np.full(tokens, 1 / tokens)
    for _ in range(iterations):
        rows = _over(1 / tokens, kernel @ columns)
        columns = _over(1 / experts, rows @ kernel)
    found: NDArray[Any] = rows[:, None] * kernel * columns
    return found


def _over(mass: float, sums: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = np.where(sums > 0, mass / np.where(sums > 0, sums, 1.0), 0.0)
    return found
