"""AIBrix's Application-specific Pod Autoscaler: a band around the target, and a limit on each step.

AIBrix (arXiv 2504.03648, "LLM-specific autoscaling"; code at e3e10f9, podautoscaler/algorithm/apa.go), after Huo et
al., J. Phys.: Conf. Ser. 2451 (2023). With r = metric / target per replica and n replicas: up to min(⌈n·r⌉,
⌈rate_up·n⌉) where r > 1 + tolerance_up, down to max(⌈n·r⌉, ⌊n / rate_down⌋) where r < 1 − tolerance_down. The metric is
a mean over a window. Defaults are the code's: tolerances 0.1, rates 2, window 180 s (metrics/client.go), 300 s in which
a higher target holds (ScaleDownCooldownWindow). Of the metric and target, which are the user's there, the default is
the KV cache half used. n is the pool's last target there; the metric is of those that serve. An empty pool with
requests gets one. So n·r would count replicas that start as loaded like those that serve; the code's guard
(podautoscaler/autoscaler.go, applyPendingReplicaGuard) counts them as without load where the pool is to grow, and as at
the target where it is to shrink, before the cooldown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor

from poise.core.units import ps
from poise.core.view import FleetView, PoolView
from poise.policies.kit.pool_metrics import Lately, PoolScaler, check_metric, count, total


@dataclass(slots=True)
class Apa(PoolScaler):
    """Change nothing while the metric is within a band, else approach the target by bounded steps.

    target: of the metric, per replica.  metric: requests, waiting, running, tokens, queued_tokens or kv (a share).
    tolerance_up, tolerance_down: shares of the target.  rate_up, rate_down: the most that a step multiplies or divides
    by. window_s: that the metric is a mean over.  cooldown_s: for how long a higher target holds.
    guard: whether replicas that start count (False: as before the code had its guard).
    """

    target: float = 0.5
    metric: str = "kv"
    tolerance_up: float = 0.1
    tolerance_down: float = 0.1
    rate_up: float = 2.0
    rate_down: float = 2.0
    window_s: float = 180.0
    cooldown_s: float = 300.0
    period_s: float = 10.0
    guard: bool = True
    _seen: dict[int, Lately] = field(default_factory=dict, init=False, repr=False, compare=False)
    _wishes: dict[int, Lately] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_metric(self.metric)
        if self.target <= 0 or self.period_s <= 0 or min(self.rate_up, self.rate_down) < 1:
            raise ValueError("target and period_s are above 0, and rate_up and rate_down are 1 or more")
        if not (self.tolerance_up >= 0 and 0 <= self.tolerance_down <= 1):
            raise ValueError("tolerance_up is not below 0, and tolerance_down lies in [0, 1]")

    def _wish(self, cluster: FleetView, number: int, pool: PoolView) -> int:
        now, has = cluster.now, pool.wanted
        if not has:
            return 1 if pool.held else 0
        seen = self._seen.setdefault(number, Lately(ps(self.window_s)))
        seen.add(now, total(cluster, pool, self.metric) / max(len(pool.serving), 1))
        ratio = seen.mean / self.target
        options = has
        if ratio > 1 + self.tolerance_up:
            options = min(count(has * ratio, 1), ceil(self.rate_up * has))
        elif ratio < 1 - self.tolerance_down:
            options = max(count(has * ratio, 1), floor(has / self.rate_down))
        if self.guard:
            options = _guarded(options, has, len(pool.serving), ratio)
        wishes = self._wishes.setdefault(number, Lately(ps(self.cooldown_s)))
        wishes.add(now, options)
        return options if options > has else min(has, int(max(wishes.most, options)))


def _guarded(options: int, has: int, ready: int, ratio: float) -> int:
    """A target that counts the replicas which start: without load going up, at the target going down."""
    starting = has - min(ready, has)
    if options > has:
        return min(max(count(ready * ratio, 1), has), options) if starting else options
    return min(max(count(ready * ratio + starting, 1), options), has)
