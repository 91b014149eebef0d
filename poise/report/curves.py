"""Curves of one run, thinned so that a page stays small: latency distributions and replica timelines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poise.core.records.records import NOT_YET, Run
from poise.core.units import SECOND
from poise.report.figures import Curve
from poise.report.latency import PERCENTILES, Picoseconds, latencies

POINTS = 400
"""The most points that one line has."""

MOMENTS = 240
"""The most points that one line of a timeline has."""


def cdf(values: Picoseconds, points: int = POINTS) -> Curve:
    """The distribution of a column of picoseconds: sorted seconds, and the share of values up to and with each.

    Every point is a point of the exact distribution. Of more than `points` values, even steps of rank are kept, finer
    ones in the last hundredth, the quoted nearest-rank percentiles, the lowest and the highest.
    """
    count = len(values)
    ranks: NDArray[np.int64] = np.arange(1, count + 1)
    if count > points:
        quoted = [-(-p * count // 100) for p in PERCENTILES]
        spare = points - len(quoted) - 2
        body = np.ceil(np.linspace(0, 0.99, spare * 4 // 5) * count)
        tail = np.ceil(np.linspace(0.99, 1, spare - spare * 4 // 5) * count)
        ranks = np.unique(np.clip(np.concatenate([body, tail, quoted, [1, count]]), 1, count)).astype(np.int64)
    chosen = np.sort(values)[ranks - 1] / SECOND
    return chosen.tolist(), (ranks / max(count, 1)).tolist()


def thinned(curve: Curve, points: int) -> Curve:
    """A curve of `cdf` with fewer points, about `points`: even steps, both ends and the quoted percentiles."""
    xs, shares = curve
    if len(xs) <= points:
        return curve
    quoted = np.searchsorted(shares, [p / 100 for p in PERCENTILES])
    even = np.linspace(0, len(xs) - 1, max(points - len(quoted), 2)).astype(int)
    kept = np.unique(np.concatenate([even, quoted])).tolist()
    return [xs[at] for at in kept], [shares[at] for at in kept]


def latency_curves(run: Run, warmup_s: float = 0.0) -> dict[str, Curve]:
    """The distributions of TTFT, TPOT and end-to-end time of finished requests, by their metric names."""
    times = latencies(run, warmup_s)
    return {"ttft_s": cdf(times.ttft), "tpot_s": cdf(times.tpot), "e2e_s": cdf(times.e2e)}


def _peaks(at: NDArray[np.int64], values: NDArray[np.float64], edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """The highest of each row of `values` [rows, instants] in each interval between `edges`: [rows, intervals].

    A value holds until it changes; NaN before the first instant.
    """
    ends = np.searchsorted(at, edges[1:], side="left")
    starts = np.maximum(np.searchsorted(at, edges[:-1], side="right") - 1, 0)
    padded = np.pad(values, ((0, 0), (0, 1)), constant_values=-np.inf)  # so that an interval may end at the end
    peaks = np.maximum.reduceat(padded, np.column_stack((starts, ends)).ravel(), axis=1)[:, ::2]
    return np.where(ends > starts, peaks, np.nan)


def _replica_lines(run: Run, points: int) -> tuple[NDArray[np.float64], dict[int, NDArray[np.float64]]]:
    """Common instants in seconds, and for each sampled replica an array [3, points]: waiting, running, KV share."""
    samples = np.array(run.samples, dtype=np.int64).reshape(-1, 5)
    samples = samples[samples[:, 0] <= run.ended_at]  # one may be taken after the last request
    samples = samples[np.argsort(samples[:, 0], kind="stable")]
    at = np.unique(samples[:, 0])
    edges = np.append(at, at[-1] + 1) if len(at) <= points else np.linspace(at[0], at[-1] + 1, points + 1).astype(int)
    lines = {}
    for replica in np.unique(samples[:, 1]).tolist():
        own = samples[samples[:, 1] == replica]
        blocks = run.replicas[replica].total_blocks or max(int(own[:, 4].max()), 1)
        values = own[:, 2:].T / np.array([[1], [1], [blocks]])
        lines[replica] = _peaks(own[:, 0], values, edges)
        stats = run.replicas[replica]
        if stats.up_until != NOT_YET:
            lines[replica][:, edges[:-1] > stats.up_until] = np.nan
        if stats.before:  # sampled at every instant at which any replica is up
            absent = np.histogram(own[:, 0], edges)[0] == 0
            lines[replica][:, absent] = np.nan
    return edges[:-1] / SECOND, lines


def replica_curves(run: Run, points: int = MOMENTS) -> dict[str, dict[str, Curve]]:
    """Timelines of `run.samples`: `waiting`, `running` and `kv` (used blocks over its own), each with a line a replica.

    Where instants are too many, each of `points` equal intervals shows its peak; NaN where nothing was known yet.
    Empty without samples.
    """
    if not run.samples:
        return {}
    at, by_replica = _replica_lines(run, points)
    return {
        what: {f"replica {replica}": (at.tolist(), values[row].tolist()) for replica, values in by_replica.items()}
        for row, what in enumerate(("waiting", "running", "kv"))
    }
