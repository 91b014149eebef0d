"""The regression of a calibration: coefficients from latencies and their parts, with standard errors.

Errors count relative to the latency that the fit expects, times to first token and times after it each by their own
spread; outliers count less (Huber, Annals of Mathematical Statistics 35, 1964). Relative to what
was observed would not do: tokens that an engine under pressure delivers in one burst are microseconds apart, and a few
such rows would outweigh all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poise.core.units import SECOND
from poise.cost.fitted import COEFFICIENTS
from poise.recordings.nnls import nnls
from poise.recordings.runs import Floats, Mask
from poise.report.blocks import bins_of
from poise.report.bootstrap import Floats as Weights
from poise.report.bootstrap import Path, Sample, settle

HUBER = 1.345
"""Spreads beyond which a row counts less; 95 % efficient where errors are normal (Huber's usual choice)."""

ROUNDS = 12
"""Iterations of the row weights."""

LOWEST = 0.05
"""The share of a usual latency below which errors of a row do not count by its own."""

TELLING = 1e-3
"""The part of a coefficient's column that the others must leave unexplained; below it the coefficient is not free."""


SAME = 1e-9
"""Columns that differ by less are the same up to rounding."""


@dataclass(frozen=True, slots=True)
class FitRows:
    """x: what each latency consists of, [rows, coefficients].  y: latencies in seconds.  group: 0 to the first token,
    1 behind it.  at: when it began, picoseconds."""

    x: Floats
    y: Floats
    group: NDArray[np.int64]
    at: NDArray[np.int64]

    def usual(self) -> Floats:
        """Of each row the median latency of its group."""
        medians = [
            float(np.median(self.y[self.group == each])) if (self.group == each).any() else 1.0 for each in (0, 1)
        ]
        return np.array(medians)[self.group]

    def __add__(self, other: FitRows) -> FitRows:
        return FitRows(
            np.concatenate([self.x, other.x]),
            np.concatenate([self.y, other.y]),
            np.concatenate([self.group, other.group]),
            np.concatenate([self.at, other.at]),
        )


@dataclass(frozen=True, slots=True)
class Fit:
    """values: by `COEFFICIENTS`.  free: which of them the rows identify; the others are their prior.  weights: of rows.
    scale: seconds that errors of rows count by."""

    values: Floats
    free: Mask
    weights: Floats
    scale: Floats

    def typical(self, rows: FitRows) -> Floats:
        """The share of a mean latency that a unit of each coefficient contributes."""
        return np.asarray((rows.x / rows.usual()[:, None]).mean(axis=0))


def regress(rows: FitRows, prior: Floats, free: Mask | None = None) -> Fit:
    """The coefficients, none negative; those not in `free` (default: what the load identifies) keep their prior."""
    usual = scale = rows.usual()
    weights = np.ones(len(rows.y))
    if free is None:
        free = telling(rows.x / np.maximum(rows.y, LOWEST * usual)[:, None])
    values = prior.copy()
    for _ in range(ROUNDS):
        x, y = rows.x / scale[:, None], rows.y / scale
        values = _solve(x, y, weights, free, prior)
        weights = _weights(np.abs(y - x @ values), rows.group)
        scale = np.maximum(rows.x @ values, LOWEST * usual)
    return Fit(values, free, weights, scale)


def telling(x: Floats) -> Mask:
    """The columns that differ enough from every mixture of the others; the least informative is dropped first."""
    free: Mask = np.asarray((np.abs(x) > 0).any(axis=0))
    while free.sum() > 1:
        own = x[:, free] / np.sqrt((x[:, free] ** 2).sum(axis=0))
        left = 1 / np.diag(np.linalg.inv(own.T @ own + SAME * np.eye(own.shape[1])))
        if left.min() >= TELLING:
            break
        # Of two that move together the one later in COEFFICIENTS is the finer effect.
        free[np.flatnonzero(free)[np.flatnonzero(left < TELLING)[-1]]] = False
    return free


def standard_errors(rows: FitRows, fit: Fit, prior: Floats) -> list[float | None]:
    """Of each coefficient, from a moving-block bootstrap over time; None where the rows are too short to say."""
    bins = bins_of(rows.at, int(rows.at.min()))
    if bins is None:
        return [None] * len(COEFFICIENTS)
    x = rows.x / fit.scale[:, None]
    place, weights = bins.of(rows.at), fit.weights
    rest = rows.y / fit.scale - x @ np.where(fit.free, 0.0, prior)
    own = x[:, fit.free]
    products = np.zeros((bins.count, own.shape[1], own.shape[1]))
    target = np.zeros((bins.count, own.shape[1]))
    np.add.at(products, place, weights[:, None, None] * own[:, :, None] * own[:, None, :])
    np.add.at(target, place, (weights * rest)[:, None] * own)

    def evaluate(often: Weights) -> dict[Path, Sample]:
        drawn = [nnls(a, b) for a, b in zip(np.tensordot(often, products, 1), often @ target, strict=True)]
        names = np.flatnonzero(fit.free)
        return {
            (COEFFICIENTS[name],): Sample(np.array(values))
            for name, values in zip(names, zip(*drawn, strict=True), strict=True)
        }

    found = settle(evaluate, bins.count)
    spreads = [found.get((name,)) for name in COEFFICIENTS]
    return [None if spread is None else spread.error for spread in spreads]


def _solve(x: Floats, y: Floats, weights: Floats, free: Mask, prior: Floats) -> Floats:
    own = x[:, free]
    rest = y - x @ np.where(free, 0.0, prior)
    values = prior.copy()
    values[free] = nnls(own.T @ (weights[:, None] * own), own.T @ (weights * rest))
    return values


def _weights(errors: Floats, group: NDArray[np.int64]) -> Floats:
    """Huber's weights over the variance of each group."""
    weights = np.ones(len(errors))
    for each in np.unique(group):
        rows = group == each
        spread = max(1.4826 * float(np.median(errors[rows])), 1e-9)
        weights[rows] = np.minimum(1.0, HUBER * spread / np.maximum(errors[rows], 1e-300)) / spread**2
    return np.asarray(weights / weights.mean())


def rows_of(x: Floats, latency: NDArray[np.int64], group: int, at: NDArray[np.int64], use: Mask) -> FitRows:
    """The rows `use` of one kind of latency, in picoseconds; those that took no time are left out."""
    chosen = use & (latency > 0)
    y = latency[chosen] / SECOND
    return FitRows(x[chosen], y, np.full(len(y), group, dtype=np.int64), at[chosen])
