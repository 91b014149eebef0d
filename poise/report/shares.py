"""Intervals of shares of requests that hold near 0 and 1 too, where a run has few requests of the rarer kind, or none.

Requests that wait in one queue are not independent, so n of them count as fewer. A share is treated as one of that
effective size, with the score interval (Wilson 1927): its wider side, so that value ± half contains the interval. Korn
and Graubard (1998) do the same for cluster surveys; Franco et al. (2019) compare such intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.records.records import Run
from poise.report.intervals import Interval
from poise.report.latency import latencies

FEWEST = 4
"""Batches that a run must contain for their correlation to be estimated."""


def effective_size(values: NDArray[Any]) -> float:
    """The effective number of independent requests of a latency, in order of arrival: number over correlation time.

    A linear trend is removed first: it is not chance. The correlation time is the largest that overlapping batches of
    1, 2, 4, … requests give, as long as there are `FEWEST` batches: an overestimate rather than an underestimate.
    """
    count = len(values)
    if count < 2 * FEWEST:
        return float(count)
    place = np.linspace(-1, 1, count)
    rest = values - values.mean()
    rest = rest - place * (place @ rest) / (place @ place)
    variance = float(rest @ rest) / count
    if variance <= 1e-18 * float(values @ values) / count:
        return float(count)
    sums = np.cumsum(np.concatenate([[0.0], rest, rest]))
    lengths = [1 << power for power in range(count.bit_length()) if count >> power >= FEWEST]
    batches = (sums[length : length + count] - sums[:count] for length in lengths)
    times = [float(batch @ batch) / count / length / variance for batch, length in zip(batches, lengths, strict=True)]
    return count / max(times)


def independent(run: Run, warmup_s: float = 0.0) -> float:
    """The effective number of independent requests of a run, by its most correlated latency; at least 1."""
    found = latencies(run, warmup_s)
    columns = [each.astype(np.float64) for each in (found.ttft, found.tpot, found.e2e) if len(each)]
    return max(min(map(effective_size, columns), default=1.0), 1.0)


def sample_size(
    counts: Sequence[float], independent: Iterable[float], shares: Sequence[float | None], by_seeds: bool
) -> float:
    """The effective number of independent requests behind a share of several runs, at least 1.

    counts, independent, shares: of each run.  by_seeds: whether intervals come from how the runs differ; those that all
    saw both kinds then suffice by themselves.
    """
    if by_seeds and all(share not in (0.0, 1.0) for share in shares):
        return max(sum(counts), 1.0)
    return max(sum(map(min, independent, counts)), 1.0)


def score(found: Interval, shares: Sequence[float], size: float, confidence: float) -> Interval:
    """The interval of a share, or of the difference of two `shares`, from the one that its standard error alone gives.

    size: independent requests behind each.  The error bounds it, for of n independent requests a share s varies by
    s(1 − s)/n. The asymmetry of chance, 1 − 2s, counts by how much of the error is of each share. Without an interval
    nothing is changed.
    """
    if found.half is None or found.error is None:
        return found
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    parts = [share * (1 - share) for share in shares]
    varies, skew = sum(parts), 1.0
    if varies > 0:
        skew = sum(part * abs(1 - 2 * share) for part, share in zip(parts, shares, strict=True)) / varies
    if found.error > 0:
        size = min(size, max(varies / found.error**2, 1.0))
    shift = skew * z * z / size / 2
    most = 1 + abs(found.value or 0) if len(shares) > 1 else max(shares[0], 1 - shares[0])
    return replace(found, half=min(shift + math.hypot(found.half, shift), most))
