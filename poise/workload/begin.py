"""When what a request belongs to began: its own stamp, or that of the first request that it follows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poise.workload.table import Workload


def begins(workload: Workload) -> NDArray[np.int64]:
    """Return for each row the stamp (picoseconds) of the row without predecessors that its first joins lead back to.

    It is the same under every policy, while the instants at which successors arrive are not.
    """
    if workload.after_offsets is None or workload.after_ids is None or not len(workload.after_ids):
        return workload.arrival
    first = np.arange(len(workload))
    joined = np.flatnonzero(np.diff(workload.after_offsets))
    first[joined] = workload.after_ids[workload.after_offsets[joined]]
    while not np.array_equal(further := first[first], first):
        first = further
    return workload.arrival[first]
