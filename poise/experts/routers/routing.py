"""What all routers of experts share: the protocol, its answer, top-k, capacities and MaxVio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poise.core.errors import UserError

NONE = -1
"""In `Routed.chosen`: no expert at this place."""


@dataclass(frozen=True, slots=True, eq=False)
class Routed:
    """Where the tokens of a batch go.

    chosen: (tokens × k) experts, each at most once in a row; `NONE` fills up a row with fewer.  gates: the same shape,
    weights of the experts' outputs, 0 beside `NONE`.  state: what the router remembers, to be given to its next call.
    """

    chosen: NDArray[Any]
    gates: NDArray[Any]
    state: NDArray[Any]

    def loads(self, experts: int) -> NDArray[Any]:
        """(experts) tokens of each."""
        return loads_of(self.chosen, experts)


class ExpertRouter(Protocol):
    """Which experts process a token; the same in training, simulation and measurement."""

    def start(self, experts: int) -> NDArray[Any]:
        """What it remembers before its first batch."""
        ...

    def route(self, scores: ArrayLike, state: NDArray[Any]) -> Routed:
        """The experts of each token, from (tokens × experts) affinities of 0 or more, softmax or sigmoid."""
        ...


def stateless() -> NDArray[Any]:
    """The state of routers that remember nothing."""
    return np.zeros(0)


def checked(scores: ArrayLike, k: int = 1) -> NDArray[Any]:
    """Scores as an array of float64; UserError where they are none, negative or not finite, or experts are too few."""
    found = np.asarray(scores, dtype=np.float64)
    if found.ndim != 2 or not found.size:
        raise UserError(f"scores: of shape {found.shape}; give one row of experts for each token")
    wrong = np.argwhere(~(np.isfinite(found) & (found >= 0)))
    if len(wrong):
        token, expert = wrong[0]
        raise UserError(
            f"scores: token {token} has {found[token, expert]} for expert {expert}; give 0 or more, as softmax does"
        )
    if not 1 <= k <= found.shape[1]:
        raise UserError(f"k: {k} of {found.shape[1]} experts; give 1 to {found.shape[1]}")
    return found


def softmax(logits: ArrayLike) -> NDArray[Any]:
    """Each row's exponentials over their sum."""
    given = np.asarray(logits, dtype=np.float64)
    powers = np.exp(given - given.max(axis=-1, keepdims=True))
    found: NDArray[Any] = powers / powers.sum(axis=-1, keepdims=True)
    return found


def top(scores: NDArray[Any], k: int) -> NDArray[Any]:
    """(rows × k) the places of the k largest of each row, the largest first."""
    places = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, places, axis=1), axis=1, kind="stable")
    found: NDArray[Any] = np.take_along_axis(places, order, axis=1)
    return found


def gates_of(scores: NDArray[Any], chosen: NDArray[Any], *, normal: bool = True) -> NDArray[Any]:
    """The scores of the chosen experts, 0 at `NONE`; with `normal` they sum to 1 in each row that has any."""
    found = np.where(chosen == NONE, 0.0, np.take_along_axis(scores, np.maximum(chosen, 0), axis=1))
    if not normal:
        return found
    total = found.sum(axis=1, keepdims=True)
    even = (chosen != NONE) / np.maximum((chosen != NONE).sum(axis=1, keepdims=True), 1)
    shares: NDArray[Any] = np.where(total > 0, found / np.where(total > 0, total, 1.0), even)
    return shares


def loads_of(chosen: NDArray[Any], experts: int) -> NDArray[Any]:
    """(experts) how often each was chosen."""
    found: NDArray[Any] = np.bincount(chosen[chosen != NONE], minlength=experts)
    return found


def within(chosen: NDArray[Any], capacities: NDArray[Any]) -> NDArray[Any]:
    """The choice with `NONE` where an expert is full: first choices go before second ones, then tokens in order.

    capacities: (experts) tokens that each takes. GShard (2006.16668), section 2.2.
    """
    flat = chosen.T.ravel()
    order = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[order], np.arange(len(capacities)))
    rank = np.empty(len(flat), dtype=np.int64)
    rank[order] = np.arange(len(flat)) - starts[flat[order]]
    found: NDArray[Any] = np.where(rank < capacities[flat], flat, NONE).reshape(chosen.T.shape).T
    return found


def max_violation(loads: ArrayLike) -> float:
    """MaxVio: how far the largest load exceeds the mean, as a part of it; 0 when even, and without any load.

    Auxiliary-Loss-Free Load Balancing (2408.15664), equation 4.
    """
    given = np.asarray(loads, dtype=np.float64)
    mean = given.mean()
    return float(given.max() / mean - 1) if mean else 0.0
