"""DeepFlow's pre-warming: keep starts that need only weights, as many as the steepest recent rise of the load.

DeepFlow / DeepServe (arXiv 2501.14417, section on fast scaling): a start goes through Scaler-Pre (pods, which a pool of
pre-warmed ones skips), TE-Pre-Load (processes and runtimes, which pre-warmed engines without a model skip), TE-Load
(weights from host memory or forked from a running engine), TE-Post-Load (a profiled KV size and one dummy request in
place of a warm-up) and Scaler-Post. In a scenario these are `startup`'s provision_s, image_s and engine_s, weights_s
and capture_s, and pre-warmed slots have the first three behind them.

The paper names no rule for how many are wanted. Here a pool has the replicas that its requests need at `target` each,
as `keep_alive` has them (with a forecast, of the predicted requests: those in flight, times the rate ahead over
the recent rate), and as many slots pre-warmed as the need has risen at most within a cold start during the last
`memory_s`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from poise.core.action import Scale
from poise.core.chance import Chance
from poise.core.event import Arrived, Event
from poise.core.units import SECOND, ps
from poise.core.view import FleetView, PoolView
from poise.policies.kit.pool_metrics import Lately, count, total


@dataclass(slots=True)
class Deepflow:
    """Size pools by their requests, and pre-warm for the steepest recent rise.

    target: requests that one replica is to have.  keep_s: for how long a higher need holds.  warm_least, warm_most:
    bounds of the slots that are pre-warmed.  memory_s: for how long a rise is remembered.
    """

    target: float = 16.0
    keep_s: float = 60.0
    warm_least: int = 1
    warm_most: int = 8
    memory_s: float = 600.0
    period_s: float = 1.0
    _needed: dict[int, Lately] = field(default_factory=dict, init=False, repr=False, compare=False)
    _lately: dict[int, Lately] = field(default_factory=dict, init=False, repr=False, compare=False)
    _rises: dict[int, Lately] = field(default_factory=dict, init=False, repr=False, compare=False)
    _arrivals: Lately = field(default_factory=lambda: Lately(0), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if min(self.target, self.keep_s, self.memory_s, self.period_s) <= 0:
            raise ValueError("target, keep_s, memory_s and period_s are above 0")
        if not 0 <= self.warm_least <= self.warm_most:
            raise ValueError("0 ≤ warm_least ≤ warm_most")
        self._arrivals = Lately(ps(self.keep_s))

    @property
    def needs(self) -> tuple[str, ...]:
        """The column read."""
        return ("requests",)

    def observe(self, event: Event) -> None:
        """Count arrivals."""
        if type(event) is Arrived and not event.attempt:
            self._arrivals.add(event.at, 1)

    def scale(self, cluster: FleetView, chance: Chance) -> Sequence[Scale]:
        """A target for each pool."""
        self._arrivals.trim(cluster.now)
        rate = len(self._arrivals) * SECOND / (min(ps(self.keep_s), cluster.now) or 1)
        more = max(cluster.rate / rate, 1.0) if cluster.rate >= 0 and rate else 1.0
        return [self._wish(cluster, number, pool, more) for number, pool in enumerate(cluster.pools)]

    def _wish(self, cluster: FleetView, number: int, pool: PoolView, more: float) -> Scale:
        now = cluster.now
        need = count(more * total(cluster, pool, "requests"), self.target)
        needed = self._needed.setdefault(number, Lately(ps(self.keep_s)))
        needed.add(now, need)
        lately = self._lately.setdefault(number, Lately(ps(pool.start_s or self.keep_s)))
        lately.add(now, need)
        rises = self._rises.setdefault(number, Lately(ps(self.memory_s)))
        rises.add(now, need - lately.least)
        warm = min(max(int(rises.most), self.warm_least), self.warm_most)
        return Scale(number, int(needed.most), warm)
