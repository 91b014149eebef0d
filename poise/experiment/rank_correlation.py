"""How alike two rows of values are in order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def spearman(one: Sequence[float], two: Sequence[float]) -> float:
    """Spearman's rank correlation: that of places, where equal values share the mean of theirs."""
    return float(np.corrcoef(_places(one), _places(two))[0, 1])


def _places(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    places: np.ndarray[tuple[int], np.dtype[np.float64]] = (np.cumsum(counts) - (counts + 1) / 2)[inverse]
    return places
