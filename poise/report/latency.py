"""Latencies of the requests of a run as integer columns, and the statistics quoted from them."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import UserError
from poise.core.records.records import FINISHED, Run
from poise.core.units import SECOND, ps

Picoseconds = NDArray[np.int64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

PERCENTILES = (50, 90, 95, 99)
"""The percentiles that are quoted everywhere."""

_LOW_BITS = 32


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean and nearest-rank percentiles of a duration, in seconds; all None where there is nothing to sum up."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class Latencies:
    """Durations of the finished requests that arrived after warm-up, in int64 picoseconds, one column each.

    queue: from arrival to the (last) dispatch to a replica, so a replica's own queue is not in it.
    ttft: from arrival to the first token.  e2e: from arrival to the end.
    tpot: (last − first token) / (output tokens − 1), to the nearest picosecond; one-token outputs have none.
    """

    queue: Picoseconds
    ttft: Picoseconds
    tpot: Picoseconds
    e2e: Picoseconds


def column(values: array[int]) -> NDArray[np.signedinteger[Any]]:
    """A numpy view of an array, without a copy; its dtype is the array's."""
    return np.asarray(values)


def since(run: Run, warmup_s: float = 0.0) -> int:
    """The instant (picoseconds) from which a run counts: `warmup_s` after what filled its caches beforehand."""
    return run.counted_from + ps(warmup_s)


def counted(run: Run, warmup_s: float = 0.0) -> Mask:
    """Which rows count: those that arrived, and not before `warmup_s` seconds; shape [rows].

    With joins, requests arrive in another order than that of their ids, so the instants decide and not `run.offered`.
    Raises `UserError` for a warm-up that is not a number of seconds ≥ 0.
    """
    if not (math.isfinite(warmup_s) and warmup_s >= 0):
        raise UserError(f"warmup_s = {warmup_s}: must be a number of seconds, 0 or more; give 0 to count every request")
    arrived = column(run.records.arrived_at)
    return np.asarray(arrived >= since(run, warmup_s), dtype=np.bool_)  # NOT_YET is below any instant


def finished(run: Run, warmup_s: float = 0.0) -> Mask:
    """Which rows arrived after `warmup_s` seconds and were served to the end."""
    rows = counted(run, warmup_s)
    rows &= column(run.records.status) == FINISHED
    return rows


def durations(run: Run, warmup_s: float = 0.0) -> dict[str, tuple[Rows, Picoseconds]]:
    """`latencies` by name, each with the rows that it is of."""
    records, rows = run.records, np.flatnonzero(finished(run, warmup_s))
    arrived, dispatched, first, ended = (
        column(instants)[rows]
        for instants in (records.arrived_at, records.dispatched_at, records.first_token_at, records.ended_at)
    )
    gaps = column(records.output_tokens)[rows].astype(np.int64) - 1
    sent, begun, several = dispatched >= 0, first >= 0, (gaps > 0) & (first >= 0)
    span, gaps = (ended - first)[several], gaps[several]
    return {
        "queue": (rows[sent], (dispatched - arrived)[sent]),
        "ttft": (rows[begun], (first - arrived)[begun]),
        "tpot": (rows[several], (span + gaps // 2) // gaps),
        "e2e": (rows, ended - arrived),
    }


def latencies(run: Run, warmup_s: float = 0.0) -> Latencies:
    """The durations of the requests that arrived after `warmup_s` seconds and finished."""
    return Latencies(**{name: values for name, (_, values) in durations(run, warmup_s).items()})


def nearest_rank(values: Picoseconds, percentiles: tuple[int, ...] = PERCENTILES) -> list[int]:
    """The nearest-rank percentiles of `values` (in any order): the ⌈p/100 · n⌉-th smallest; `values` is not empty."""
    ranks = [max(-(-p * len(values) // 100), 1) - 1 for p in percentiles]
    part = np.partition(values, sorted(set(ranks)))
    return [int(part[rank]) for rank in ranks]


def total(values: Picoseconds) -> int:
    """The sum of a column.

    Taken in two halves of the bits and joined as Python integers: a million requests of 100 s would overflow 64 bits,
    and a float sum would depend on the width of the machine's vectors.
    """
    high, low = int((values >> _LOW_BITS).sum()), int((values & ((1 << _LOW_BITS) - 1)).sum())
    return (high << _LOW_BITS) + low


def summary(values: Picoseconds) -> Summary:
    """Mean and percentiles of a column of picoseconds, in seconds."""
    if not len(values):
        return Summary()
    p50, p90, p95, p99 = (value / SECOND for value in nearest_rank(values))
    return Summary(total(values) / (len(values) * SECOND), p50, p90, p95, p99)
