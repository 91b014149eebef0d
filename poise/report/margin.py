"""Whether two runs of the same requests differ by more than ties and chance explain."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.report.seeds import half_width

BLOCKS = 20
"""Blocks of consecutive requests whose mean changes are treated as independent."""


def margin(changes: NDArray[np.floating[Any]]) -> float:
    """Half of the 95 % interval of the mean change; `changes` are those of paired requests in order of arrival.

    A request that did not change is certain. The others are divided into `BLOCKS` blocks of equal size, whose means are
    compared, because neighbouring requests share batches and are not independent. 0 where fewer requests changed than
    there are blocks: such a run is too short for an interval.
    """
    changed = changes[changes != 0]
    if len(changed) < BLOCKS:
        return 0.0
    means = [float(block.mean()) for block in np.array_split(changed, BLOCKS)]
    return half_width(means) * len(changed) / len(changes)
