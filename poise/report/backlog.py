"""Whether the queue of a run grew without bound: what came against what went."""

from __future__ import annotations

import numpy as np

from poise.core.records import Run
from poise.core.units import ps
from poise.report.latency import column

GROWTH = 0.05
"""A queue grows without bound when more than this share of what arrives stays in it."""


def backlog_growth(run: Run, last: int, *, warmup_s: float = 0.0) -> float | None:
    """The share of the arrivals by which the backlog grew, in the second half of the time from warm-up to `last`.

    The backlog is what has arrived and not ended; `last` (picoseconds) is the instant of the last arrival. Near 0 where
    the cluster keeps up; under twice the load that it can carry half of what comes stays, so 0.5. Requests that last
    longer than the half of H seconds pile up in it even where all is well. Those that came in the first half say how
    many: with durations D, a share E[min(max(D − H, 0), H)] / H, which is taken off. None where that share is above
    `GROWTH` and explains the whole: the run is too short beside its requests. None too where a half has no arrivals.
    """
    start = ps(warmup_s)
    arrived, ended = (column(each).astype(np.int64) for each in (run.records.arrived_at, run.records.ended_at))
    ended = np.where(ended < 0, np.iinfo(np.int64).max, ended)
    half = (last - start) // 2
    middle = last - half
    came, early = (arrived >= 0) & (arrived <= last), (arrived >= start) & (arrived < middle)
    late = int((came & (arrived >= middle)).sum())
    if half <= 0 or not early.any() or not late:
        return None
    grown = int((came & (ended > last)).sum()) - int((came & (arrived < middle) & (ended > middle)).sum())
    lasting = float(np.clip(ended[early] - arrived[early] - half, 0, half).mean()) / half
    growth = grown / late - lasting
    return None if lasting > GROWTH >= growth else growth
