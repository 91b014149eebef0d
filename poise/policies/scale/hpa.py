"""Kubernetes' Horizontal Pod Autoscaler (autoscaling/v2), on an average value per replica.

"Algorithm details" of its documentation: desired = ⌈metric / target⌉, where the metric is a total and the target what
one replica is to have of it; none within a tolerance of where the pool is. Going down, the highest target of the
stabilisation window counts; going up, at most twice as many or `pods` more in one period. The defaults are those of
kube-controller-manager and of the API's default behaviour: tolerance 0.1, a decision every 15 s, a window of 300 s down
and none up, +100 % or 4 pods in 15 s. A pool of none is not scaled, as there. metric and target are the user's there;
the defaults here are ours. A custom metric reaches it by scrapes and an adapter: `delay_s` later, 0 by default. Before
the first arrives nothing is scaled.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.units import ps
from poise.core.view import FleetView, PoolView
from poise.policies.kit.late_metric import Late
from poise.policies.kit.pool_metrics import Lately, PoolScaler, check_metric, count, total


@dataclass(slots=True)
class Hpa(PoolScaler):
    """Keep a metric at `target` for each replica.

    metric: requests, waiting, running, tokens, queued_tokens or kv (a share).  tolerance: a share of the target.
    stabilisation_s: for how long a higher target holds.  percent, pods: what may be added in one period.
    delay_s: how old the metric is when it is read.
    """

    target: float = 16.0
    metric: str = "requests"
    tolerance: float = 0.1
    stabilisation_s: float = 300.0
    percent: float = 100.0
    pods: int = 4
    period_s: float = 15.0
    delay_s: float = 0.0
    _late: dict[int, Late] = field(default_factory=dict, init=False, repr=False, compare=False)
    _wishes: dict[int, Lately] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_metric(self.metric)
        if self.target <= 0 or self.period_s <= 0 or min(self.tolerance, self.stabilisation_s, self.percent) < 0:
            raise ValueError(
                "target and period_s are above 0, and tolerance, stabilisation_s and percent are not below"
            )
        if self.delay_s < 0:
            raise ValueError(f"delay_s is {self.delay_s}; a metric is read after it was taken, give 0 or more")

    def _wish(self, cluster: FleetView, number: int, pool: PoolView) -> int | None:
        late = self._late.setdefault(number, Late(ps(self.delay_s)))
        value, has = late.seen(cluster.now, total(cluster, pool, self.metric)), pool.wanted
        if not has or value is None:
            return None
        ratio = value / (self.target * has)
        options = has if abs(ratio - 1) <= self.tolerance + 1e-9 else count(value, self.target)
        wishes = self._wishes.setdefault(number, Lately(ps(self.stabilisation_s)))
        wishes.add(cluster.now, options)
        most = max(has + self.pods, int(has * (1 + self.percent / 100)))
        return min(options, most) if options > has else min(has, int(max(wishes.most, options)))
