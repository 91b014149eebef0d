"""The most loaded rank of experts: what it gets of a step's tokens, by a table that is made once for each pool.

A layer of experts ends when its most loaded rank does, so a step costs what that rank has to do. Expert e is one of the
`active` experts of a token with chance q_e, Σ q = active. Of n tokens it gets Binomial(n, q_e), and a rank the sum over
its experts: the binomial of equal mean and variance, which is exact where they are alike, and a normal variable from
`NORMAL` pairs on. Ranks are taken as independent, E[max] = Σ_t (1 − Π_r P(X_r ≤ t)): that a token has a fixed number of
experts lowers the variance of each rank and sets ranks against one another, which cancels in the largest of equal ones.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from poise.core.errors import ScenarioError
from poise.core.experts import ExpertLoad, Placement, copies
from poise.core.spec import Pool

if TYPE_CHECKING:
    from numpy.typing import NDArray

FINE, COARSE = 0.53, 0.16
"""Zipf exponents of measured routing, medians over layers and domains: OLMoE-1B-7B, 64 experts of which 8 are active,
and Mixtral-8x7B, 8 of which 2 are (allenai/OLMoE, Apache-2.0; `python bench/expert_load.py DATA`)."""

FEW = 22
"""Experts up to which a model is nearer to Mixtral's 8 than to OLMoE's 64, by ratio."""

LAYERS = 8
"""Layers with favourites of their own that stand for all layers under a Zipf law."""

NORMAL = 64.0
"""Mean pairs of the fullest rank from which its load is taken as normally distributed."""

MOST_OCTAVES = 18
"""Octaves of tokens for which the table is made; beyond, the last line goes on."""

Table = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...], tuple[float, ...]]


class Busiest:
    """What the most loaded rank of experts has of a layer, by the tokens of all data ranks together.

    spread: the coefficient of variation of experts' popularity, mean over layers.
    """

    __slots__ = ("_at", "_lines", "_miss", "_sparse", "spread")

    def __init__(self, table: Table | None, miss: float, spread: float) -> None:
        """table: nodes, and at each `tokens`, `touched` and `fewer`; None for one rank with equally popular experts."""
        self._miss, self.spread = miss, spread
        self._at = table[0] if table else ()
        self._lines = _lines(*table[:3]) if table else ()
        self._sparse = table[3] if table else ()

    def load(self, tokens: float) -> tuple[float, float]:
        """The tokens that would give every rank as many pairs on average, and the experts with any, over the mean
        number of experts that a rank holds."""
        if not self._lines:
            return tokens, 1.0 - float(self._miss**tokens)
        fixed, slope, low, rise = self._lines[bisect_right(self._at, tokens)]
        return fixed + slope * tokens, low + rise * tokens

    def tokens(self, tokens: float) -> float:
        """The first figure of `load`: `tokens` times the most loaded rank's pairs over the mean."""
        return self.load(tokens)[0]

    def touched(self, tokens: float) -> float:
        """The second figure of `load`."""
        return self.load(tokens)[1]

    def fewer(self, tokens: float) -> float:
        """The number of experts with any token, over that of equally popular experts with as many pairs."""
        if not self._sparse:
            return 1.0
        index = bisect_right(self._at, tokens)
        if not 0 < index < len(self._at):
            return self._sparse[min(index, len(self._at) - 1)]
        low, high, one, other = *self._at[index - 1 : index + 1], *self._sparse[index - 1 : index + 1]
        return one + (other - one) * (tokens - low) / (high - low)


Lines = tuple[tuple[float, float, float, float], ...]


def _lines(at: tuple[float, ...], tokens: tuple[float, ...], touched: tuple[float, ...]) -> Lines:
    """Between nodes, from (0, 0) to the first and beyond the last: both rows as fixed values and slopes.

    Beyond the last node tokens go on with the last slope, and no further expert is touched.
    """
    found, low, one, other = [], 0.0, 0.0, 0.0
    for high, more, most in zip(at, tokens, touched, strict=True):
        slope, rise = (more - one) / (high - low), (most - other) / (high - low)
        found.append((one - slope * low, slope, other - rise * low, rise))
        low, one, other = high, more, most
    fixed, slope, _, _ = found[-1]
    return (*found, (fixed, slope, other, 0.0))


def busiest(pool: Pool) -> Busiest:
    """The most loaded rank of `pool`'s experts; ScenarioError for shares or a placement that do not fit its model."""
    return busiest_of(pool.engine.expert_load, pool)


def busiest_of(load: ExpertLoad, pool: Pool) -> Busiest:
    """`busiest` with another load."""
    moe = pool.model.moe
    if moe is None:
        return Busiest(None, 0.0, 0.0)
    return _busiest(load, pool.engine.expert_placement, moe.experts, moe.active, pool.expert)


def describe_load(pool: Pool) -> dict[str, object]:
    """The load of experts that a pool's steps are priced with; {} for models without."""
    moe, load = pool.model.moe, pool.engine.expert_load
    if moe is None:
        return {}
    found: dict[str, object] = {"file": load.source} if load.shares else {"zipf": exponent(load, moe.experts)}
    slots = copies(pool.engine.expert_placement, moe.experts)
    return {"expert_load": {**found, **({"slots": slots} if slots != moe.experts else {})}}


def exponent(load: ExpertLoad, experts: int) -> float:
    """The Zipf exponent of a load that has no shares."""
    if load.zipf is not None:
        return load.zipf
    return COARSE if experts <= FEW else FINE


@lru_cache(maxsize=256)
def _busiest(load: ExpertLoad, placement: Placement, experts: int, active: int, ranks: int) -> Busiest:
    miss = 1 - active / experts
    if not load.shares and exponent(load, experts) == 0 and ranks == 1 and not placement:
        return Busiest(None, miss, 0.0)
    chances = inclusion(load, experts, active)
    weights = placed(placement, chances.shape[0], experts, ranks)
    spread = float((chances.std(axis=1) / chances.mean(axis=1)).mean())
    return Busiest(_table(chances, weights), miss, spread)


def inclusion(load: ExpertLoad, experts: int, active: int) -> NDArray[Any]:
    """(layers × experts) chances that an expert is one of a token's `active`; each row sums to `active`."""
    import numpy as np

    if load.shares:
        shares = np.array(load.shares, dtype=float)
        if shares.ndim != 2 or shares.shape[1] != experts:
            width = shares.shape[-1] if shares.ndim == 2 else "unequal numbers of"
            raise ScenarioError(
                f"{load.source or 'engine.expert_load'}: has {width} experts a layer, but the model has {experts}; "
                "give the loads of this model"
            )
    else:
        chance = np.random.default_rng(0)
        popularity = np.arange(1, experts + 1, dtype=float) ** -exponent(load, experts)
        shares = np.stack([chance.permutation(popularity) for _ in range(LAYERS)])
    return np.stack([_capped(row / row.sum() * active) for row in shares])


def _capped(chances: NDArray[Any]) -> NDArray[Any]:
    """The chances with none above 1: what is cut off goes to the others in proportion."""
    import numpy as np

    total = chances.sum()
    full = np.zeros(len(chances), dtype=bool)
    while (chances[~full] > 1).any():
        full |= chances >= 1
        rest = chances[~full].sum()
        chances = np.where(full, 1.0, chances * ((total - full.sum()) / rest if rest else 0.0))
    return chances


def placed(placement: Placement, layers: int, experts: int, ranks: int) -> NDArray[Any]:
    """(layers × ranks × experts) parts of an expert's tokens that go to each rank."""
    import numpy as np

    weights = np.zeros((len(placement) or 1, ranks, experts))
    if not placement:
        for expert in range(experts):
            weights[0, expert * ranks // experts, expert] = 1.0
    for at, layer in enumerate(placement):
        if len(layer) != experts or not all(layer) or max(map(max, layer)) >= ranks:
            raise ScenarioError(
                f"engine.expert_placement: layer {at} must name for each of {experts} experts one or more of the ranks "
                f"0 to {ranks - 1}; write one list of ranks for each expert"
            )
        for expert, holders in enumerate(layer):
            for rank in holders:
                weights[at, rank, expert] += 1 / len(holders)
    if len(weights) not in (1, layers):
        raise ScenarioError(
            f"engine.expert_placement: has {len(weights)} layers, but the load has {layers}; give one layer or as many"
        )
    return np.broadcast_to(weights, (layers, ranks, experts))


def _table(chances: NDArray[Any], weights: NDArray[Any]) -> Table:
    """The table of `Busiest`: means over layers, two nodes an octave."""
    import numpy as np

    each = weights * chances[:, None, :]  # chance that a token goes to the copy of an expert on a rank
    mean, square = each.sum(axis=2), (each * each).sum(axis=2)
    fullest = mean.argmax(axis=1)
    rows = np.arange(len(each))
    own, most = each[rows, fullest], mean[rows, fullest]
    slots = np.maximum((own > 0).sum(axis=1), 1)
    held = (weights > 0).sum(axis=(1, 2)) / weights.shape[1]
    nodes, found = [2.0 ** (at / 2) for at in range(2 * MOST_OCTAVES + 1)], []
    for n in nodes:
        largest = np.maximum(expected_largest(mean, square, n), n * most)
        often = largest / (n * most)  # chances in steps in which this rank has that much
        touched = (1 - np.power(np.maximum(1 - own * often[:, None], 0.0), n)).sum(axis=1)
        found.append(
            (
                float((largest / mean.mean(axis=1)).mean()),
                float((touched / held).mean()),
                fewer_touched(touched, slots, most * often, n),
            )
        )
    tokens, touched_, fewer = zip(*found, strict=True)
    return tuple(nodes), rising(tokens), rising(touched_), fewer


def fewer_touched(touched: NDArray[Any], held: NDArray[Any], pairs: NDArray[Any], tokens: float) -> float:
    """Experts with any token over those of `held` equally popular ones with as many `pairs` of each token."""
    import numpy as np

    even = held * (1 - np.power(np.maximum(1 - pairs / held, 0.0), tokens))
    return min(1.0, float(touched.sum() / even.sum()))


def rising(values: tuple[float, ...]) -> tuple[float, ...]:
    """Each value or the largest before it: rounding must not make more work cheaper."""
    from itertools import accumulate

    return tuple(accumulate(values, max))


def expected_largest(mean: NDArray[Any], square: NDArray[Any], tokens: float) -> NDArray[Any]:
    """For each layer, the expected largest of its ranks' pairs with `tokens` tokens.

    mean, square: (layers × ranks) sums of the chances of a rank's experts and of their squares.
    """
    if tokens * mean.max() < NORMAL:
        return _largest_binomial(mean, square, tokens)
    return _largest_normal(mean * tokens, (mean - square).clip(1e-12) * tokens)


def _largest_binomial(mean: NDArray[Any], square: NDArray[Any], tokens: float) -> NDArray[Any]:
    """Σ_t (1 − Π_r P(X_r ≤ t)) with X_r ~ Binomial(tokens · mean² / square, square / mean), real trials included."""
    import numpy as np

    some = mean > 0
    p = np.where(some, square / np.where(some, mean, 1.0), 0.0).clip(0.0, 1 - 1e-12)
    trials = np.where(some, tokens * mean / np.where(some, p, 1.0), 0.0)
    odds = p / (1 - p)
    chance = np.exp(trials * np.log1p(-p))
    below, total = chance.copy(), np.zeros(len(mean))
    most = int(tokens * mean.max() + 12 * (tokens * mean.max()) ** 0.5 + 12)
    for t in range(most):
        beyond = 1 - below.clip(0.0, 1.0).prod(axis=1)
        if beyond.max() < 1e-9:
            break
        total += beyond
        chance = chance * ((trials - t) / (t + 1)).clip(0.0) * odds
        below = below + chance
    return total


def _largest_normal(mean: NDArray[Any], variance: NDArray[Any]) -> NDArray[Any]:
    """The expected largest of independent normal variables, by the trapezoid rule."""
    import numpy as np

    deviation = np.sqrt(variance)
    low = (mean - 5 * deviation).max(axis=1)
    high = (mean + 6 * deviation).max(axis=1)
    parts = np.linspace(0.0, 1.0, 129)
    at = low[:, None] + (high - low)[:, None] * parts
    beyond = 1 - _normal((at[:, :, None] - mean[:, None, :]) / deviation[:, None, :]).prod(axis=2)
    found: NDArray[Any] = low + np.trapezoid(beyond, at, axis=1)
    return found


def _normal(z: NDArray[Any]) -> NDArray[Any]:
    """The normal distribution function, to 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    import numpy as np

    x = np.abs(z) / 2**0.5
    t = 1 / (1 + 0.3275911 * x)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    tail *= 0.5 * np.exp(-x * x)
    found: NDArray[Any] = np.where(z > 0, 1 - tail, tail)
    return found
