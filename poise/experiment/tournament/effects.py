"""Main effects and interactions: the average effect of each level of each factor, and of pairs of levels.

Least squares with sum-to-zero codes and a mean for every cell (a block at a load). Runs of one block share their
traffic, so they are no independent evidence: the covariance is the sandwich over blocks of Liang and Zeger,
*Biometrika* 73 (1986), with t on one degree of freedom less than there are blocks. An interval thus says what another
block of the same kinds may do, and not only what another seed may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from poise.experiment.tournament.factor import Combination
from poise.report.intervals import Interval
from poise.report.seeds import CONFIDENCE, t_quantile

Floats = NDArray[np.float64]
Term = tuple[int, ...]
"""The factors that a term joins: one for a main effect, two for an interaction."""


@dataclass(frozen=True, slots=True)
class Row:
    """One run: which combination in which block at which load (by number), and its figure, more being better."""

    block: int
    load: int
    levels: Combination
    value: float


@dataclass(frozen=True, slots=True)
class Fit:
    """The fitted terms. levels: of each factor.  effects: for each term one value for each of its levels or pairs of
    levels, in the order of the factors; they add up to 0.  wide: for each, the variances and covariances of all."""

    levels: tuple[int, ...]
    effects: Mapping[Term, Floats]
    covariance: Mapping[Term, Floats]
    blocks: int
    shares: Mapping[Term, float]

    def against(self, at: int, level: int, other: int = 0, confidence: float = CONFIDENCE) -> Interval:
        """How much better a level of a factor is than another on average over the other factors."""
        contrast = np.zeros(self.levels[at])
        contrast[level] += 1
        contrast[other] -= 1
        return self._interval((at,), contrast, confidence)

    def joint(self, term: Term, one: int, two: int, confidence: float = CONFIDENCE) -> Interval:
        """How much better a pair of levels is than both of them apart would make it."""
        contrast = np.zeros((self.levels[term[0]], self.levels[term[1]]))
        contrast[one, two] = 1
        return self._interval(term, contrast.ravel(), confidence)

    def _interval(self, term: Term, contrast: Floats, confidence: float) -> Interval:
        value = float(contrast @ self.effects[term].ravel())
        if self.blocks < 2:
            return Interval(value, None, "one block: an interval needs two or more")
        variance = float(contrast @ self.covariance[term] @ contrast)
        return Interval(value, t_quantile(self.blocks - 1, confidence) * max(variance, 0.0) ** 0.5)

    def pairs(self) -> list[Term]:
        """The interactions that were fitted."""
        return [term for term in self.effects if len(term) == 2]

    def predicted(self, chosen: Combination, pairs: Iterable[tuple[Term, int, int]] = ()) -> float:
        """The predicted gain of a combination over the average one, by main effects and the significant `pairs`."""
        main = sum(float(self.effects[at,][level]) for at, level in enumerate(chosen))
        active = [(term, one, two) for term, one, two in pairs if (chosen[term[0]], chosen[term[1]]) == (one, two)]
        return main + sum(float(self.effects[term][one, two]) for term, one, two in active)


def fit(rows: Sequence[Row], levels: Sequence[int], *, interactions: bool = True) -> Fit:
    """Fit main effects, and interactions where requested; a factor of one level has no effect."""
    varied = [at for at, count in enumerate(levels) if count > 1]
    terms: list[Term] = [(at,) for at in varied]
    terms += combinations(varied, 2) if interactions else []
    codes = {at: _codes(levels[at]) for at in varied}
    chosen = np.array([row.levels for row in rows])
    parts = {term: _columns(term, codes, chosen) for term in terms}
    blocks, cells = _numbered([row.block for row in rows]), _numbered([(row.block, row.load) for row in rows])
    x = _centred(np.hstack([parts[term] for term in terms]), cells)
    y = _centred(np.array([[row.value] for row in rows]), cells)[:, 0]
    inverse = np.linalg.pinv(x.T @ x)
    beta = inverse @ (x.T @ y)
    wide = _sandwich(np.asarray(inverse, np.float64), x, y - x @ beta, blocks)
    return _fit(levels, terms, codes, beta, wide, int(blocks.max()) + 1, float(y @ y) / len(y))


def _codes(count: int) -> Floats:
    """Sum-to-zero codes: the last level is minus the sum of the others."""
    return np.vstack([np.eye(count - 1), -np.ones(count - 1)])


def _columns(term: Term, codes: Mapping[int, Floats], chosen: NDArray[np.int64]) -> Floats:
    part = codes[term[0]][chosen[:, term[0]]]
    for at in term[1:]:
        part = (part[:, :, None] * codes[at][chosen[:, at]][:, None, :]).reshape(len(chosen), -1)
    return part


def _numbered(keys: Sequence[object]) -> NDArray[np.int64]:
    numbers = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys])


def _centred(values: Floats, groups: NDArray[np.int64]) -> Floats:
    """Values less the mean of their group."""
    sums = np.zeros((int(groups.max()) + 1, values.shape[1]))
    np.add.at(sums, groups, values)
    return values - (sums / np.bincount(groups)[:, None])[groups]


def _sandwich(inverse: Floats, x: Floats, left: Floats, blocks: NDArray[np.int64]) -> Floats:
    """The covariance of the coefficients, blocks being independent."""
    count = int(blocks.max()) + 1
    scores = np.zeros((count, x.shape[1]))
    np.add.at(scores, blocks, x * left[:, None])
    return inverse @ (scores.T @ scores) @ inverse * (count / max(count - 1, 1))


def _fit(
    levels: Sequence[int], terms: Sequence[Term], codes: Mapping[int, Floats], beta: Floats, wide: Floats,
    blocks: int, variance: float,
) -> Fit:  # fmt: skip
    """Coefficients unfolded to one effect for each level or pair of levels."""
    effects: dict[Term, Floats] = {(at,): np.zeros(1) for at, count in enumerate(levels) if count == 1}
    covariance: dict[Term, Floats] = {term: np.zeros((1, 1)) for term in effects}
    shares, begin = {}, 0
    for term in terms:
        unfold = codes[term[0]] if len(term) == 1 else np.kron(codes[term[0]], codes[term[1]])
        part = slice(begin, begin + unfold.shape[1])
        begin = part.stop
        flat = unfold @ beta[part]
        effects[term] = flat.reshape([levels[at] for at in term])
        covariance[term] = unfold @ wide[part, part] @ unfold.T
        shares[term] = float(np.mean(flat**2)) / variance if variance else 0.0
    return Fit(tuple(levels), effects, covariance, blocks, shares)
