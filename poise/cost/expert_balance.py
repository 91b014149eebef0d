"""Which ranks hold which experts, some of them more than once, so that the most loaded rank has as little as may be.

The greedy of EPLB (deepseek-ai/EPLB, global policy; DeepSeek-V3, arXiv 2412.19437, section 3.4): spare slots go one by
one to the expert with the most tokens a copy; then copies, the most loaded first, go to the least loaded rank that has
a slot.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import UserError
from poise.core.experts import ExpertLoad, Placement
from poise.cost.expert_load import inclusion
from poise.experts.bound import copies
from poise.experts.packing import holding, pack, spread_names
from poise.experts.placement import ExpertPlacement


def balanced(load: ExpertLoad, experts: int, active: int, ranks: int, spare: int = 0) -> Placement:
    """A placement for each layer of a load. spare: slots beyond one an expert; all slots are a multiple of `ranks`."""
    if spare < 0 or ranks < 1 or (experts + spare) % ranks:
        raise UserError(
            f"{experts} experts with {spare} spare slots do not fill {ranks} ranks evenly; give a multiple of the ranks"
        )
    return spread(inclusion(load, experts, active), ranks, spare)


def spread(popularity: NDArray[Any], ranks: int, spare: int = 0) -> Placement:
    """The ranks of each expert, by (layers × experts) popularity; an expert may be on a rank twice."""
    experts = popularity.shape[1]
    counts = copies(popularity, experts + spare, experts + spare)
    names = spread_names(counts)
    packs = pack(np.take_along_axis(popularity / counts, names, axis=1), ranks)
    return ExpertPlacement(holding(names, packs, ranks, experts)).holders()
