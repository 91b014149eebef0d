"""The auxiliary loss of balance with its gradient: experts · Σ f p, least where either is even.

Switch Transformer (2101.03961), equations 4 to 6. f is the part of choices that went to an expert, p the mean of its
scores over tokens. f counts, so it has no gradient: only p carries one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def frequencies(loads: ArrayLike) -> NDArray[Any]:
    """f: the part of all choices that each expert has."""
    given = np.asarray(loads, dtype=np.float64)
    total = given.sum(axis=-1, keepdims=True)
    found: NDArray[Any] = given / np.where(total > 0, total, 1.0)
    return found


def balance_loss(scores: ArrayLike, f: ArrayLike, weights: ArrayLike = 1.0) -> float:
    """experts · Σ w f p, 1 for even scores that sum to 1.

    scores: (tokens × experts).  f: (experts), of this batch or of a larger one.  weights: of experts (MoE++ has less
    for those that do not compute).
    """
    given = np.asarray(scores, dtype=np.float64)
    return float(given.shape[1] * (np.asarray(weights) * np.asarray(f) * given.mean(axis=0)).sum())


def balance_gradient(scores: ArrayLike, f: ArrayLike, weights: ArrayLike = 1.0) -> NDArray[Any]:
    """(tokens × experts) the gradient of `balance_loss` by the logits whose softmax the scores are."""
    given = np.asarray(scores, dtype=np.float64)
    by_score = given.shape[1] * np.asarray(weights) * np.asarray(f) / len(given)
    inner = (given * by_score).sum(axis=1, keepdims=True)
    found: NDArray[Any] = given * (by_score - inner)
    return found
