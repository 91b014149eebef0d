"""Fits the error model to measured over predicted values, every group judged by the others.

Middle and spread are ridge regressions on terms of the conditions: of the logarithm of measured over predicted time,
and of the logarithm of what is left of it. Quantiles of what is left over its spread are those of rows whose source,
model or device the regression of the middle left out: conformal prediction with whole groups as folds (Barber, Candès,
Ramdas and Tibshirani, arXiv 1905.02928, section 4; for groups Dunn, Wasserman and Ramdas, arXiv 1809.07441).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from poise.intervals.alike import common_part
from poise.intervals.calibration import Calibration, new_terms
from poise.intervals.conditions import FIGURES, Conditions
from poise.intervals.interval import LEVELS
from poise.intervals.own import ALIKE, deployment
from poise.intervals.ridge import Floats, Ints, Mask, Terms

FOLDS = 8
"""Parts into which sources, models and devices are dealt, each left out in turn."""

GENERAL, OWN = 3.0, 12.0
"""Rows' worth of doubt against a term: of general ones, and of those of one model, device or engine on them."""

EVEN = 0.75
"""How nearly clusters count alike: 0 by their rows, 1 all the same."""

BEYOND = 0.12
"""Of a source not seen, the part whose errors count as farther than any that were seen, on each side."""

LARGEST = 1.5
"""The largest logarithm that counts in the regression of the middle: larger ones are other mistakes."""

SERVED = ("ttft", "tpot", "e2e", "throughput")
"""The figures whose rows of one deployment have a common part; steps of training differ by layout as much as by it."""

FLOOR = 0.03
"""The least error that counts in the regression of the spread: a repeated run differs by 2.6 % in throughput."""


class Seen(NamedTuple):
    """One measured figure: its conditions, its source, and the logarithm of measured over predicted time."""

    conditions: Conditions
    source: str
    log: float

    @property
    def cluster(self) -> tuple[str, str, str, str]:
        """Rows that are not independent: one source's figures of one model on one device."""
        return (self.source, self.conditions.model, self.conditions.device, self.conditions.figure)


HELD_OUT: Mapping[str, Callable[[Seen], str]] = {
    "source": lambda row: row.source,
    "model": lambda row: row.conditions.model,
    "device": lambda row: row.conditions.device,
}
"""What groups of rows are left out by."""


class Fitted(NamedTuple):
    """An error model of one kind of figure: the value of each term, quantiles, and which names were seen."""

    middle: Floats
    spread: Floats
    quantiles: Floats
    seen: Mask


class Evidence:
    """Rows of one kind of figure as numbers, so that a fit to any part of them takes milliseconds."""

    def __init__(self, rows: Sequence[Seen]) -> None:
        self.rows = rows
        of = [row.conditions for row in rows]
        own = [each.own() for each in of]
        self.logs = np.array([row.log for row in rows])
        self._clipped = np.clip(self.logs, -LARGEST, LARGEST)
        self._middle = Terms([(*each.general(), *mine) for each, mine in zip(of, own, strict=True)], _doubt)
        self._own = Terms(own, _doubt)
        general = [each.general() for each in of]
        names = [new_terms(each, mine) for each, mine in zip(of, own, strict=True)]
        self._spread = Terms([(*each, *new) for each, new in zip(general, names, strict=True)], _doubt)
        self._news: Ints = np.array([len(each) for each in general])[:, None] + np.arange(len(own[0]))
        self.weights = self._weights()
        self._sources: Ints = np.unique([row.source for row in rows], return_inverse=True)[1]

    def _weights(self) -> Floats:
        """The weight of each row: a cluster counts as the square root of its rows."""
        counts = Counter(row.cluster for row in self.rows)
        return np.array([counts[row.cluster] ** -EVEN for row in self.rows])

    def fit(self, kept: Mask) -> Fitted:
        """The error model by the rows that are `kept`."""
        errors, spreads, weights = [], [], []
        for by in HELD_OUT.values():
            for out in folds(self.rows, by, kept):
                used = self.weights * (kept & ~out)
                left = np.flatnonzero(kept & out)
                middle = self._middle.sums(self._middle.fit(self._clipped, used))
                errors.append((self.logs - middle)[left])
                spreads.append(self._spread_terms(self._seen(used > 0))[left])
                weights.append(self.weights[left])
        if not errors:  # one source of one model on one device: all that is known is their own spread
            errors, spreads, weights = [self.logs[kept]], [self._spread.at[kept]], [self.weights[kept]]
        error, weight = np.concatenate(errors), np.concatenate(weights)
        spread, scale = self._regress(np.concatenate(spreads), error, weight)
        middle = self._middle.fit(self._clipped, self.weights * kept)
        quantiles = _quantiles(error / scale, weight, 1 / self._groups(kept))
        return Fitted(middle, spread, quantiles, self._seen(kept))

    def _groups(self, kept: Mask) -> float:
        """How many sources of equal weight the rows that are kept are worth (Kish's effective size)."""
        total = np.bincount(self._sources, self.weights * kept)
        return float(total.sum() ** 2 / (total**2).sum())

    def _regress(self, terms: Ints, error: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """The terms of the spread, and the spread of each error."""
        model = self._spread.on(terms)
        found = model.fit(np.log(np.maximum(np.abs(error), FLOOR)), weight)
        return found, np.exp(model.sums(found))

    def _seen(self, kept: Mask) -> Mask:
        """Which terms of names the rows that are kept have."""
        seen = np.zeros(len(self._own.names) + 1, dtype=bool)
        seen[self._own.at[kept].ravel()] = True
        return seen

    def _spread_terms(self, seen: Mask) -> Ints:
        """The terms of each row's spread, where only `seen` names were seen: terms of the others are kept."""
        terms = self._spread.at.copy()
        rows, columns = np.nonzero(seen[self._own.at])
        terms[rows, self._news[rows, columns]] = len(self._spread.names)
        return terms

    def logs_of(self, fitted: Fitted, rows: Ints) -> Floats:
        """The logarithms of measured over predicted time at `LEVELS` that a fit states for rows."""
        middle = self._middle.sums(fitted.middle)[rows]
        spread = np.exp(fitted.spread[self._spread_terms(fitted.seen)[rows]].sum(axis=1))
        logs: Floats = middle[:, None] + spread[:, None] * fitted.quantiles
        return logs

    def calibration(self) -> Calibration:
        """The calibration by all rows."""
        found, figure = self.fit(np.ones(len(self.rows), dtype=bool)), self.rows[0].conditions.figure
        alike = self.alike() if figure in SERVED else 0.0
        return Calibration(
            self._middle.named(found.middle), self._spread.named(found.spread), {figure: found.quantiles.tolist()},
            frozenset(self._own.names), {figure: {ALIKE: round(alike, 2)}} if alike else {},
        )  # fmt: skip

    def alike(self) -> float:
        """The part of the variance that rows of one deployment have in common, each source judged by the others."""
        errors, every = np.zeros(len(self.rows)), np.ones(len(self.rows), dtype=bool)
        low, middle, high = (LEVELS.index(level) for level in (0.1, 0.5, 0.9))
        names: list[tuple[str, ...]] = [("", str(at)) for at in range(len(self.rows))]
        for out in folds(self.rows, HELD_OUT["source"], every):
            left = np.flatnonzero(out)
            logs = self.logs_of(self.fit(~out), left)
            errors[left] = 2 * (self.logs[left] - logs[:, middle]) / (logs[:, high] - logs[:, low])
            for at in left.tolist():
                names[at] = (self.rows[at].source, *map(str, deployment(self.rows[at].conditions)))
        return common_part(names, errors)


def calibrate(rows: Sequence[Seen], about: Mapping[str, str] | None = None) -> Calibration:
    """The calibration of all kinds of figures that `rows` have."""
    parts = [Evidence(own).calibration() for own in by_figure(rows).values()]
    return Calibration(
        {name: value for part in parts for name, value in part.middle.items()},
        {name: value for part in parts for name, value in part.spread.items()},
        {name: value for part in parts for name, value in part.quantiles.items()},
        frozenset(term for part in parts for term in part.seen),
        {name: value for part in parts for name, value in part.own.items()},
        about or {},
    )


def by_figure(rows: Sequence[Seen]) -> dict[str, list[Seen]]:
    """Rows by their kind of figure."""
    found: dict[str, list[Seen]] = {}
    for row in rows:
        found.setdefault(row.conditions.figure, []).append(row)
    return found


def folds(rows: Sequence[Seen], by: Callable[[Seen], str], kept: Mask, most: int = FOLDS) -> Iterator[Mask]:
    """Which rows are left out, fold by fold: whole groups of those that are kept, dealt so that folds are even."""
    names = [by(row) for row in rows]
    sizes, parts = [0] * most, dict.fromkeys(names, -1)
    for name, count in Counter(name for name, each in zip(names, kept, strict=True) if each).most_common():
        parts[name] = sizes.index(min(sizes))
        sizes[parts[name]] += count
    where = np.array([parts[name] for name in names])
    for part in range(most):
        if 0 < sizes[part] < int(kept.sum()):
            yield where == part


def _doubt(term: str) -> float:
    """Rows' worth of doubt; hardly any against a figure as such, which is its mean."""
    if term in FIGURES:
        return 0.1
    return OWN if any(mark in term for mark in (" model ", " device ", " on ", " of ")) else GENERAL


def _quantiles(values: Floats, weights: Floats, beyond: float) -> Floats:
    """Weighted quantiles at `LEVELS`.

    beyond: the weight of one more source, next to all; its errors may lie anywhere, so a share `BEYOND` of it counts as
    farther than any on either side.
    """
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) - weights[order] / 2
    more = BEYOND * beyond
    found: Floats = np.interp(LEVELS, (reached / weights.sum() + more) / (1 + 2 * more), values[order])
    return found
