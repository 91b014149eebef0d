"""Whether two runs of the same requests differ, or only as much as ties and luck would make them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.report.seeds import half_width

BLOCKS = 20
"""Stretches of requests whose mean changes are taken for independent of each other."""


def margin(changes: NDArray[np.floating[Any]]) -> float:
    """Half of the 95 % interval of the mean change; `changes` are those of paired requests in order of arrival.

    A request that did not change at all is certain. The others are cut into `BLOCKS` blocks of equally many, whose
    means are compared, for neighbours share their batches and are not independent. 0 where fewer changed than that:
    such a run is too short for anything but the bare facts.
    """
    changed = changes[changes != 0]
    if len(changed) < BLOCKS:
        return 0.0
    means = [float(block.mean()) for block in np.array_split(changed, BLOCKS)]
    return half_width(means) * len(changed) / len(changes)
