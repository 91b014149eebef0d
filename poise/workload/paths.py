"""The longest way through each program: what it takes at least, however the requests are scheduled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poise.workload.scale import session_of
from poise.workload.table import Workload

Rows = NDArray[np.int64]


def programs(workload: Workload) -> Rows | None:
    """Return for each row the number of its program, -1 for none: its session, else the rows that it is joined to.

    None where no row belongs to a program.
    """
    if workload.session is not None:
        return workload.session.astype(np.int64)
    if workload.after_offsets is None:
        return None
    return np.unique(session_of(workload), return_inverse=True)[1].astype(np.int64)


def critical_path(workload: Workload, took: Rows) -> dict[int, int]:
    """Return for each program the picoseconds of its longest way, where row i takes `took[i]` and tools what they take.

    With the time of each request alone on an idle engine it bounds the job completion time from below; with the times
    of a run (end minus arrival) it is that time, to the picosecond. Rows without predecessors count from the first
    arrival of their program.
    """
    of = programs(workload)
    if of is None:
        return {}
    first: dict[int, int] = {}
    for row, program in enumerate(of.tolist()):
        first.setdefault(program, int(workload.arrival[row]))
    ends: list[int] = []
    longest: dict[int, int] = {}
    for row, program in enumerate(of.tolist()):
        begins = _begins(workload, row, ends)
        ends.append((int(workload.arrival[row]) if begins is None else begins) + int(took[row]))
        if program >= 0:
            longest[program] = max(ends[row] - first[program], longest.get(program, 0))
    return longest


def _begins(workload: Workload, row: int, ends: list[int]) -> int | None:
    """When a row arrives that waits for others; None for one that does not."""
    if workload.after_offsets is None or workload.after_ids is None:
        return None
    span = range(int(workload.after_offsets[row]), int(workload.after_offsets[row + 1]))
    if not span:
        return None
    waits, delay = workload.after_delay, workload.delay
    last: int = max(ends[workload.after_ids[at]] + (0 if waits is None else int(waits[at])) for at in span)
    return last + (0 if delay is None else int(delay[row]))
