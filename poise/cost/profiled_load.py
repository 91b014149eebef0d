"""The load of experts that kernels were profiled with, and what the most loaded rank had of it, which was timed.

AIConfigurator's profiles draw the tokens of each expert from a power law of exponent 1 between 1 and 0.8·n tokens (for
fewer pairs than experts, between 0.01 and 2), round them, and time the rank that has most (ai-dynamo/aiconfigurator,
collector/helper.py, Apache-2.0). Here the law's quantiles stand for its draws.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from poise.cost.expert_load import MOST_OCTAVES, Busiest, fewer_touched, rising

if TYPE_CHECKING:
    from numpy.typing import NDArray

ORDERS = 64
"""Random orders of the experts over which is averaged."""


@lru_cache(maxsize=256)
def profiled(experts: int, active: int, ranks: int) -> Busiest:
    """What the profiled rank has, by the tokens of all ranks together."""
    import numpy as np

    chance = np.random.default_rng(0)
    orders = np.stack([chance.permutation(experts) for _ in range(ORDERS)])
    edges = [-(-rank * experts // ranks) for rank in range(ranks)]
    nodes = [2.0 ** (at / 2) for at in range(2 * MOST_OCTAVES + 1)]
    found = [_fullest(pairs_of(n, experts, active)[orders], edges, n) for n in nodes]
    tokens, fewer = zip(*found, strict=True)
    scaled = tuple(ranks / active * each for each in tokens)
    return Busiest((tuple(nodes), rising(scaled), fewer, fewer), 1 - active / experts, 0.0)


def pairs_of(tokens: float, experts: int, active: int) -> NDArray[Any]:
    """Pairs of each expert in whole numbers, the most popular one first; they sum to `tokens` · `active`."""
    import numpy as np

    total = round(tokens * active)
    low, high = (1.0, 0.8 * tokens) if total > experts else (0.01, 2.0)
    popularity = low * (high / low) ** ((np.arange(experts)[::-1] + 0.5) / experts)
    counts = np.round(popularity / popularity.sum() * total)
    missing = int(total - counts.sum())
    at = np.arange(abs(missing)) % max(int((counts > 0).sum()) if missing < 0 else experts, 1)
    np.add.at(counts, at, np.sign(missing))
    found: NDArray[Any] = counts
    return found


def _fullest(counts: NDArray[Any], edges: list[int], tokens: float) -> tuple[float, float]:
    """Pairs of the fullest rank, and its experts with any over those of equally popular ones; means over orders."""
    import numpy as np

    pairs = np.add.reduceat(counts, edges, axis=1)
    touched = np.add.reduceat((counts > 0).astype(float), edges, axis=1)
    held = np.add.reduceat(np.ones_like(counts), edges, axis=1)
    rows, most = np.arange(len(pairs)), pairs.argmax(axis=1)
    own = pairs[rows, most]
    return float(own.mean()), fewer_touched(touched[rows, most], held[rows, most], own / tokens, tokens)
