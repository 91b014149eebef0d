"""When what a request belongs to began: its own stamp, or that of the first request that it follows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poise.workload.table import Workload


def leaders(workload: Workload) -> NDArray[np.int64]:
    """Return for each row the row without predecessors that its first joins lead back to; itself where it has none."""
    first = np.arange(len(workload))
    if workload.after_offsets is None or workload.after_ids is None or not len(workload.after_ids):
        return first
    joined = np.flatnonzero(np.diff(workload.after_offsets))
    first[joined] = workload.after_ids[workload.after_offsets[joined]]
    while not np.array_equal(further := first[first], first):
        first = further
    return first


def begins(workload: Workload) -> NDArray[np.int64]:
    """Return for each row the stamp (picoseconds) of its leader.

    It is the same under every policy, while the instants at which successors arrive are not.
    """
    return workload.arrival[leaders(workload)]
