"""The part of the variance of errors that rows of one deployment have in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from poise.intervals.ridge import Floats

CLIP = 4.0
"""Errors count up to this many half-widths of their interval for 80 %: larger ones are other mistakes."""

LEAST = 20
"""Deployments of two rows or more that a part is fitted to at least."""

COUNTS = 0.25
"""The power of its rows with which a deployment counts: large ones are a few sources' sweeps."""


def common_part(deployments: Sequence[Hashable], errors: Floats) -> float:
    """The mean product of two errors of a deployment over the mean square of one, in [0, 1].

    errors: over the width of their intervals, of rows whose source the middle left out.  0 where there are too few.
    """
    rows: dict[Hashable, list[float]] = defaultdict(list)
    for name, error in zip(deployments, np.clip(errors, -CLIP, CLIP).tolist(), strict=True):
        rows[name].append(error)
    groups = [np.array(each) for each in rows.values() if len(each) > 1]
    if len(groups) < LEAST:
        return 0.0
    pairs = squares = 0.0
    for group in groups:
        count, square = len(group), float((group**2).sum())
        weight = count**COUNTS
        pairs += weight * (float(group.sum()) ** 2 - square) / (count * (count - 1))
        squares += weight * square / count
    return min(max(pairs / squares, 0.0), 1.0) if squares else 0.0
