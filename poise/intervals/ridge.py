"""Ridge regression on terms: each row is a sum of a few terms, of which there are hundreds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Terms:
    """The terms of many rows as numbers, and regressions on some of these rows.

    names: of the terms.  at: the terms of each row, filled up with a term that is always 0.
    """

    def __init__(self, rows: Sequence[Sequence[str]], doubt: Callable[[str], float]) -> None:
        self.names = list(dict.fromkeys(term for row in rows for term in row))
        numbers = {name: at for at, name in enumerate(self.names)}
        most, none = max(map(len, rows), default=0), len(self.names)
        self.at: Ints = np.array([[*(numbers[term] for term in row), *[none] * (most - len(row))] for row in rows])
        self._doubt = np.array([*map(doubt, self.names), 1.0])
        self._group()

    def on(self, at: Ints) -> Terms:
        """The same terms on other rows."""
        found = copy(self)
        found.at = at
        found._group()
        return found

    def _group(self) -> None:
        """Rows of equal terms together: there are few of them."""
        self._alike, self._of = np.unique(self.at, axis=0, return_inverse=True)
        self._of = self._of.reshape(-1)
        size = len(self.names) + 1
        self._pairs = (self._alike[:, :, None] * size + self._alike[:, None, :]).reshape(len(self._alike), -1)

    def fit(self, values: Floats, weights: Floats) -> Floats:
        """The value of each term, the last of 0; rows of weight 0 do not count."""
        size, count = len(self.names) + 1, len(self._alike)
        weight = np.bincount(self._of, weights, minlength=count)
        moved = np.bincount(self._of, weights * values, minlength=count)
        kept = np.flatnonzero(weight)
        pairs = self._pairs[kept]
        gram = np.bincount(pairs.ravel(), np.repeat(weight[kept], pairs.shape[1]), minlength=size * size)
        alike = self._alike[kept]
        moment = np.bincount(alike.ravel(), np.repeat(moved[kept], alike.shape[1]), minlength=size)
        gram = gram.reshape(size, size)
        gram[-1], gram[:, -1], moment[-1] = 0.0, 0.0, 0.0
        found: Floats = np.linalg.solve(gram + np.diag(self._doubt), moment)
        return found

    def sums(self, found: Floats) -> Floats:
        """The sum of each row's terms."""
        total: Floats = found[self.at].sum(axis=1)
        return total

    def named(self, found: Floats) -> dict[str, float]:
        """The values by name."""
        return dict(zip(self.names, map(float, found), strict=False))
