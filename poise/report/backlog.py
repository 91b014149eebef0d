"""Whether the queue of a run grew without bound: what came against what went."""

from __future__ import annotations

import numpy as np

from poise.core.records import Run
from poise.core.units import ps
from poise.report.latency import column


def backlog_growth(run: Run, last: int, *, warmup_s: float = 0.0) -> float | None:
    """The requests by which the backlog grew per arrival, in the second half of the time from warm-up to `last`.

    The backlog is what has arrived and not ended; `last` (picoseconds) is the instant of the last arrival. Near 0 where
    the cluster keeps up; with twice the load that it can carry one half of what comes stays, so 0.5. None where nobody
    arrives in that half. The first half is left to queues and caches to fill, so a run should last several times as
    long as a request does.
    """
    start = ps(warmup_s)
    arrived, ended = column(run.records.arrived_at), column(run.records.ended_at)
    came = np.sort(arrived[arrived >= 0])
    went = np.sort(ended[(ended >= 0) & (arrived >= 0)])
    instants = np.array([(start + last) // 2, last])
    in_system = np.searchsorted(came, instants, side="right") - np.searchsorted(went, instants, side="right")
    arrivals = int(np.searchsorted(came, last, side="right") - np.searchsorted(came, instants[0], side="right"))
    return float(in_system[1] - in_system[0]) / arrivals if last > start and arrivals else None
