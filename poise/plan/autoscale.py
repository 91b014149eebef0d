"""A bound on what autoscaling could save: the replicas that each window of time needs by itself."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from poise.core.units import SECOND
from poise.plan.demand import Demand, span_s

WINDOWS, LEAST_S = 24, 60.0
"""Windows into which the traffic is cut, and the shortest one that a scaler could follow."""


@dataclass(frozen=True, slots=True)
class Autoscale:
    """Replicas by window of `window_s` seconds: the least, the mean and the most that are needed, of `fixed`.

    Closed form: each window has what its own load asks for, from its first moment on, without start-up; shorter windows
    could do with less, and `poise.plan.scale` simulates what scalers reach.
    """

    window_s: float
    fixed: int
    least: int
    mean: float
    most: int

    @property
    def saved(self) -> float:
        """The share of replica-hours that scaling could save."""
        return max(0.0, 1 - self.mean / self.fixed)


def autoscale(demand: Demand, replicas: int, load: float = 1.0) -> Autoscale | None:
    """The closed form for a fleet of `replicas`, sized for the busiest stretch; None for traffic of a few minutes.

    Work is counted in tokens, prompt and output alike.  load: the fleet holds the busiest stretch times this factor.
    """
    whole, busy = demand.whole, demand.stretches[0]
    if whole.after_offsets is not None or span_s(whole) < WINDOWS * LEAST_S:
        return None
    tokens = whole.prompt.astype(np.int64) + whole.output
    window_s = span_s(whole) / WINDOWS
    where = np.minimum(((whole.arrival - whole.arrival[0]) / (window_s * SECOND)).astype(np.int64), WINDOWS - 1)
    rates = np.bincount(where, weights=tokens, minlength=WINDOWS) / window_s
    full = load * float((busy.prompt.astype(np.int64) + busy.output).sum()) / span_s(busy)
    needs = [min(replicas, max(1, ceil(replicas * rate / full))) for rate in rates]
    return Autoscale(window_s, replicas, min(needs), sum(needs) / len(needs), max(needs))
