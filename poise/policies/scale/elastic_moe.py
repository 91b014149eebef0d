"""ElasticMoE's scaling: one small step up as soon as the SLO slips, and one down when it holds with room.

ElasticMoE (arXiv 2510.02613): a load estimator watches the SLO, and an instance grows or shrinks by one data-parallel
rank at a time, while it serves. A rank costs few devices and is ready in seconds, because its weights come from its
neighbours' memory and an engine for that size is initialised already: 2.43 s for DP3→DP4, 10.4 s without the copy from
peers, 62.8 s without the initialised engine, on Ascend 910C.

Here a replica models one rank: give the pool a small layout, and a `startup` with `weights_from: peer` and
`prewarmed` slots. What is not modelled: experts that move between ranks, and the KV and requests that an instance
shares over its ranks. The published estimator's thresholds were not at hand, so `below`, `above` and the windows are
ours: up where less than `below` of the first tokens of the window were in time (those that have waited longer than that
count as late already), down where at least `above` were and the replicas left would have no more than `fill` of the KV
cache and no waiting request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from poise.core.action import Scale
from poise.core.chance import Chance
from poise.core.event import Arrived, Cancelled, Event, Failed, Finished, FirstToken
from poise.core.units import ps
from poise.core.view import FleetView, PoolView
from poise.policies.kit.pool_metrics import Lately, total


@dataclass(slots=True)
class ElasticMoe:
    """Step by step after the SLO's attainment.

    ttft_s: when a first token is due.  below, above: shares in time.  fill: share of the KV cache.  step: replicas.
    window_s: of the attainment.  hold_s: after a step down, before the next one.
    """

    ttft_s: float = 1.0
    below: float = 0.95
    above: float = 0.99
    fill: float = 0.5
    step: int = 1
    window_s: float = 10.0
    hold_s: float = 30.0
    period_s: float = 1.0
    _open: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _seen: Lately = field(default_factory=lambda: Lately(0), init=False, repr=False, compare=False)
    _down_at: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if min(self.ttft_s, self.window_s, self.period_s) <= 0 or self.step < 1 or self.hold_s < 0:
            raise ValueError("ttft_s, window_s and period_s are above 0, step is 1 or more, and hold_s not below 0")
        if not 0 <= self.below <= self.above <= 1 or not 0 < self.fill <= 1:
            raise ValueError("0 ≤ below ≤ above ≤ 1, and fill lies in (0, 1]")
        self._seen = Lately(ps(self.window_s))

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("waiting", "free_blocks")

    def observe(self, event: Event) -> None:
        """Count first tokens in time and late."""
        if type(event) is Arrived:
            self._open.setdefault(event.request.id, event.at)
        elif type(event) is FirstToken and event.request in self._open:
            self._seen.add(event.at, event.at - self._open.pop(event.request) <= ps(self.ttft_s))
        elif isinstance(event, Finished | Cancelled | Failed):
            self._open.pop(event.request, None)

    def scale(self, cluster: FleetView, chance: Chance) -> Sequence[Scale]:
        """A step for each pool, where one is due."""
        self._seen.trim(cluster.now)
        late = sum(cluster.now - since > ps(self.ttft_s) for since in self._open.values())
        known = len(self._seen) + late
        share = self._seen.sum / known if known else 1.0
        return [
            Scale(number, self._wish(cluster, number, pool, share), pool.warm)
            for number, pool in enumerate(cluster.pools)
        ]

    def _wish(self, cluster: FleetView, number: int, pool: PoolView, share: float) -> int:
        now, has, ready = cluster.now, pool.wanted, len(pool.serving)
        if pool.held and not has:
            return self.step
        if share < self.below:
            return has + self.step if ready >= has else has  # the last step has no effect yet
        left = ready - self.step
        if share < self.above or ready > has or left < 1 or total(cluster, pool, "waiting"):
            return has
        if now < self._down_at.get(number, 0) or total(cluster, pool, "kv") > self.fill * left:
            return has
        self._down_at[number] = now + ps(self.hold_s)
        return has - self.step
