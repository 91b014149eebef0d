"""K-means router: an expert's row is a running mean of the hidden states that went to it, and nothing is learnt.

Ahrac, Hochwald and Geva, Geometric Coupling (2605.12476). Tokens go to the k centroids of the largest cosine; each
centroid moves towards the mean direction of its tokens, and one without tokens stays.

Parameters: `k` (2). `keep` (0.99): of a centroid after a batch. `width` (64): of hidden states. `seed` (0): of the
first centroids, random directions. Its scores are hidden states (tokens × width), not affinities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poise.core.errors import UserError
from poise.experts.routers.routing import Routed, gates_of, softmax, top


@dataclass(frozen=True, slots=True)
class KMeansRouter:
    """The nearest centroids by cosine. Its state is the centroids, of length 1 (experts × width)."""

    k: int = 2
    keep: float = 0.99
    width: int = 64
    seed: int = 0

    def start(self, experts: int) -> NDArray[Any]:
        """Random directions."""
        return directions(np.random.default_rng(self.seed).normal(size=(experts, self.width)))

    def route(self, scores: ArrayLike, state: NDArray[Any]) -> Routed:
        """The experts of hidden states; gates are the softmax of the chosen cosines. UserError for another width."""
        hidden = np.asarray(scores, dtype=np.float64)
        if hidden.ndim != 2 or hidden.shape[1] != state.shape[1]:
            raise UserError(
                f"hidden states: of shape {hidden.shape}, and centroids have {state.shape[1]} entries; give (tokens × "
                f"{state.shape[1]})"
            )
        units = directions(hidden)
        cosines = units @ state.T
        chosen = top(cosines, self.k)
        member = np.zeros_like(cosines)
        np.put_along_axis(member, chosen, 1.0, axis=1)
        means = directions(member.T @ units)
        moved = np.where(member.any(axis=0)[:, None], self.keep * state + (1 - self.keep) * means, state)
        return Routed(chosen, gates_of(softmax(cosines), chosen), directions(moved))


def directions(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of length 1; those of length 0 stay."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    found: NDArray[Any] = rows / np.where(length > 0, length, 1.0)
    return found
