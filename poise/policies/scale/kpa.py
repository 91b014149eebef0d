"""Knative's Pod Autoscaler: concurrency over a stable and a panic window.

Knative serving, "Autoscaling" (autoscaler/scaling/autoscaler.go, config-autoscaler); AIBrix has it too
(podautoscaler/algorithm/kpa.go). Over each window the mean of the pool's concurrency, divided by the target of a
replica, gives a target number, at most `rate_up` times and at least 1/`rate_down` of those that serve. Where the panic
window's is `panic` times those that serve or more, panic begins; it lasts until that has not been so for a stable
window, and meanwhile nothing shrinks. Defaults are Knative's: windows 60 s and a tenth of it, panic 2.0, rates 1000 and
2, a target of 100 of which 70 % are aimed at, a decision every 2 s. Engines of an LLM batch fewer; give them a target
of their own. Concurrency is sampled at each decision, there each second. An empty pool starts one replica as soon as a
request waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor

from poise.core.units import ps
from poise.core.view import FleetView, PoolView
from poise.policies.kit.pool_metrics import Lately, PoolScaler, check_metric, count, total


class _Pool:
    """The state kept for a pool."""

    __slots__ = ("panic", "panic_most", "panic_until", "stable")

    def __init__(self, stable: int, panic: int) -> None:
        self.stable, self.panic = Lately(stable), Lately(panic)
        self.panic_until = self.panic_most = 0


@dataclass(slots=True)
class Kpa(PoolScaler):
    """Keep the concurrency of each replica at `utilisation` of `target`, and panic when it doubles.

    metric: requests (the concurrency), waiting, running, tokens, queued_tokens or kv (a share).  stable_s, panic_s: the
    windows.  panic: how many times those that serve.  rate_up, rate_down: the most that a step multiplies or divides
    by.
    """

    target: float = 100.0
    utilisation: float = 0.7
    metric: str = "requests"
    stable_s: float = 60.0
    panic_s: float = 6.0
    panic: float = 2.0
    rate_up: float = 1000.0
    rate_down: float = 2.0
    period_s: float = 2.0
    _pools: dict[int, _Pool] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_metric(self.metric)
        if self.target <= 0 or self.period_s <= 0 or not 0 < self.utilisation <= 1:
            raise ValueError("target and period_s are above 0, and utilisation lies in (0, 1]")
        if not 0 < self.panic_s <= self.stable_s or self.panic < 1 or min(self.rate_up, self.rate_down) < 1:
            raise ValueError("panic_s lies in (0, stable_s], and panic, rate_up and rate_down are 1 or more")

    def _wish(self, cluster: FleetView, number: int, pool: PoolView) -> int:
        now, ready = cluster.now, len(pool.serving)
        known = self._pools.setdefault(number, _Pool(ps(self.stable_s), ps(self.panic_s)))
        value = total(cluster, pool, self.metric)
        known.stable.add(now, value)
        known.panic.add(now, value)
        each = self.target * self.utilisation
        stable, panic = (self._bounded(count(window.mean, each), ready) for window in (known.stable, known.panic))
        if count(known.panic.mean, each) / max(ready, 1) >= self.panic:
            if now >= known.panic_until:
                known.panic_most = 0
            known.panic_until = now + ps(self.stable_s)
        if now >= known.panic_until:
            return stable
        known.panic_most = max(known.panic_most, stable, panic, pool.wanted)
        return known.panic_most

    def _bounded(self, options: int, ready: int) -> int:
        most = max(1, ceil(self.rate_up * ready))
        return min(max(options, floor(ready / self.rate_down)), most)
