"""Whether the queue of a run grew without bound: arrivals against completions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poise.core.records.records import Run
from poise.report.intervals import Interval
from poise.report.latency import column, since

GROWTH = 0.05
"""A queue grows without bound when more than this share of what arrives stays in it."""

_TWO_SIDED = 1.96
"""Standard errors of a 95 % interval."""


def backlog_growth(run: Run, last: int, *, warmup_s: float = 0.0, leaders: NDArray[np.int64] | None = None) -> Interval:
    """The share of the arrivals by which the backlog grew, in the second half of the time from the start to `last`.

    The start is the first arrival, or the end of warm-up where that is later.

    The backlog is what has arrived and not ended; `last` (picoseconds) is the instant of the last arrival. Near 0 where
    the cluster keeps up; under twice the load that it can carry half of the arrivals stay, so 0.5. Requests that take
    longer than the half of H seconds to answer accumulate in it even where none waits. Those that arrived in that half
    say how many: with D from first token to end, a share E[min(max(D − H, 0), H)] / H, which is taken off. None where
    that share is above `GROWTH` and explains the whole: the run is too short for its requests. None too where a half
    has no arrivals.

    The interval is of the chance in one run: the numbers of running requests at two instants are two Poisson counts,
    and one more is the request that has just arrived. So one of twenty answered at the end is not a growing queue.

    leaders: the row that each row's chain of joins began with (`workload.begin`). Such a chain then counts as one
    request, which ends with the last of them: a longer conversation is not a growing queue.
    """
    records = run.records
    arrived, ended = (column(each).astype(np.int64) for each in (records.arrived_at, records.ended_at))
    start = max(since(run, warmup_s), int(arrived[arrived >= 0].min(initial=last)))
    begun = column(records.first_token_at)
    ended = np.where(ended < 0, np.iinfo(np.int64).max, ended)
    if leaders is not None:
        np.maximum.at(ended, leaders, ended.copy())
        alone = leaders == np.arange(len(leaders))
        arrived, ended, begun = arrived[alone], ended[alone], begun[alone]
    half = (last - start) // 2
    middle = last - half
    counted, early = (arrived >= 0) & (arrived <= last), (arrived >= start) & (arrived < middle)
    late = int((counted & (arrived >= middle)).sum())
    if half <= 0 or not early.any() or not late:
        return Interval(None)
    then, now = int((counted & (arrived < middle) & (ended > middle)).sum()), int((counted & (ended > last)).sum())
    answering = np.where(begun >= 0, ended - begun, 0)[early]
    lasting = float(np.clip(answering - half, 0, half).mean()) / half
    growth = (now - then) / late - lasting
    if lasting > GROWTH >= growth:
        return Interval(None)
    error = (then + now + 1) ** 0.5 / late
    return Interval(growth, _TWO_SIDED * error, error=error)
