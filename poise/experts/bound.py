"""What no placement can beat: the least load of the most loaded rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.experts.placement import Counts


def least_busiest(counts: Counts, ranks: int, slots: int) -> NDArray[Any]:
    """Of each layer a load that the most loaded of `ranks` cannot stay below, with `slots` copies on each.

    The larger of two: the mean of ranks; and the largest part of an expert, where ranks · slots copies are given so
    that it is least. Copies are given one by one to the expert with the largest part, which is optimal, and at most
    one to a rank. A rank that holds that part has at least as much, however tokens are split.
    """
    mean = counts.sum(axis=1) / ranks
    part = counts / copies(counts, ranks * slots, ranks)
    found: NDArray[Any] = np.maximum(mean, part.max(axis=1))
    return found


def copies(counts: Counts, slots: int, most: int) -> NDArray[Any]:
    """(rows × experts) copies of each, `slots` in all and at most `most` of one, so that the largest part is least.

    Where all experts have `most` copies, slots stay empty.
    """
    found = np.ones(counts.shape, dtype=np.int64)
    rows = np.arange(len(counts))
    for _ in range(min(slots, most * counts.shape[1]) - counts.shape[1]):
        part = np.where(found < most, counts / found, -1.0)
        found[rows, part.argmax(axis=1)] += 1
    return found
