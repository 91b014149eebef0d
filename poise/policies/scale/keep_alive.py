"""Serverless scaling: an instance as soon as it is needed, kept for a while once it is not.

"Serverless Cold Starts and Where to Find Them" (arXiv 2410.06145, section 2): a pod serves a fixed number of requests
at once, another one starts for the next, and one that was idle for the keep-alive time stops; 60 s there. Sized by the
pool's requests in flight and held, which is the count that such pods would have if the load were packed. There a pod is
idle by itself; here a pool has as many replicas as its requests needed at most within the keep-alive time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.units import ps
from poise.core.view import FleetView, PoolView
from poise.policies.kit.pool_metrics import Lately, PoolScaler, count, total


@dataclass(slots=True)
class KeepAlive(PoolScaler):
    """As many replicas as were needed at most in the last `keep_s`.

    concurrency: requests that one replica serves at once.
    """

    metric = "requests"

    concurrency: int = 16
    keep_s: float = 60.0
    period_s: float = 1.0
    _needed: dict[int, Lately] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.keep_s <= 0 or self.period_s <= 0:
            raise ValueError("concurrency is 1 or more, and keep_s and period_s are above 0")

    def _wish(self, cluster: FleetView, number: int, pool: PoolView) -> int:
        needed = self._needed.setdefault(number, Lately(ps(self.keep_s)))
        needed.add(cluster.now, count(total(cluster, pool, "requests"), self.concurrency))
        return int(needed.most)
