"""ElasticMoE's scaling: one small step up as soon as the SLO slips, and one down when it holds with room.

ElasticMoE (arXiv 2510.02613): a load estimator watches the SLO, and an instance grows or shrinks by one data-parallel
rank at a time, while it serves. A rank's weights come from its neighbours, and an engine of that size is initialised
already: DP3→DP4 in 2.43 s, 10.4 s without the copies, 62.8 s without that engine, on Ascend 910C.

Two ways to say it here. A replica is a rank, and holds all experts; a step adds replicas to its pool. Or, with
`resize`, the pools that serve the same requests are the sizes of one instance (DP3, DP4, …) in order, of which one
serves. `shared`: the next size starts on what its new rank has to copy (`weights_from: peer`), and takes all new
requests once it serves; the old size finishes its own on the same devices, where the simulator gives both their full
speed, unless the mover `evacuate` hands them over. `drained`: the new size starts when the old one has no requests
left, which with the start of a whole engine is a restart in place.

Not modelled: experts that move between the old ranks. These hold fewer after a step up, so a remap copies none to them.
The published estimator's thresholds were not at hand, so `below`, `above` and the windows are ours: up where less than
`below` of the first tokens of the window were in time (those that have waited longer than that count as late already),
down where at least `above` were and the replicas left would have no more than `fill` of the KV cache and no waiting
request. Of a resized instance, no more than `fill` of the present size counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from poise.core.action import Scale
from poise.core.chance import Chance
from poise.core.event import Arrived, Cancelled, Event, Failed, Finished, FirstToken
from poise.core.units import ps
from poise.core.view import FleetView, PoolView
from poise.policies.kit.pool_metrics import Lately, total

Change = tuple[int, int, Sequence[int]]  # the pools of the old and of the new size, and the replicas of the old one


@dataclass(slots=True)
class ElasticMoe:
    """Step by step after the SLO's attainment.

    ttft_s: when a first token is due.  below, above: shares in time.  fill: share of the KV cache.  step: replicas.
    window_s: of the attainment.  hold_s: after a step down, before the next one.
    resize: `shared` or `drained` where pools are the sizes of one instance, empty where a step adds replicas.
    """

    ttft_s: float = 1.0
    below: float = 0.95
    above: float = 0.99
    fill: float = 0.5
    step: int = 1
    window_s: float = 10.0
    hold_s: float = 30.0
    period_s: float = 1.0
    resize: Literal["", "shared", "drained"] = ""
    _steps: dict[int, Change] = field(default_factory=dict, init=False, repr=False, compare=False)
    _open: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _seen: Lately = field(default_factory=lambda: Lately(0), init=False, repr=False, compare=False)
    _down_at: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if min(self.ttft_s, self.window_s, self.period_s) <= 0 or self.step < 1 or self.hold_s < 0:
            raise ValueError("ttft_s, window_s and period_s are above 0, step is 1 or more, and hold_s not below 0")
        if not 0 <= self.below <= self.above <= 1 or not 0 < self.fill <= 1:
            raise ValueError("0 ≤ below ≤ above ≤ 1, and fill lies in (0, 1]")
        if self.resize not in ("", "shared", "drained"):
            raise ValueError(f"resize is {self.resize!r}; give shared, drained or nothing")
        self._seen = Lately(ps(self.window_s))

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("requests", "waiting", "free_blocks")

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
        if self.resize:
            return [each for sizes in _instances(cluster) for each in self._resized(cluster, sizes, share)]
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

    def _resized(self, cluster: FleetView, sizes: Sequence[int], share: float) -> list[Scale]:
        """What changes the size of an instance: first the new size comes and then the old one goes, or in turn."""
        key = sizes[0]
        if key in self._steps:
            old, new, replicas = self._steps[key]
            if not cluster.pools[new].wanted:  # drained: the old one goes first
                return [] if any(cluster.requests[each] for each in replicas) else [Scale(new, 1)]
            if cluster.pools[new].serving:
                del self._steps[key]
                return [Scale(old, 0)]
            return []
        first, *others = [number for number in sizes if cluster.pools[number].wanted] or [key]
        if others:  # as at the start: the smallest stays
            return [Scale(number, 0) for number in others]
        at = sizes.index(first) if cluster.pools[first].serving else None
        to = None if at is None else self._size(cluster, sizes, at, share)
        if at is None or to is None:
            return []
        old, new = sizes[at], sizes[to]
        self._steps[key] = (old, new, tuple(cluster.pools[old].serving))
        return [Scale(old, 0)] if self.resize == "drained" else [Scale(new, 1)]

    def _size(self, cluster: FleetView, sizes: Sequence[int], at: int, share: float) -> int | None:
        """The place of the next size; None to stay."""
        now, pool, top = cluster.now, cluster.pools[sizes[at]], len(sizes) - 1
        if share < self.below:
            return min(at + self.step, top) if at < top else None
        if share < self.above or not at or total(cluster, pool, "waiting"):
            return None
        if now < self._down_at.get(sizes[0], 0) or total(cluster, pool, "kv") > self.fill:
            return None
        self._down_at[sizes[0]] = now + ps(self.hold_s)
        return max(at - self.step, 0)


def _instances(cluster: FleetView) -> list[list[int]]:
    """The pools that serve the same requests, by their first one."""
    found: dict[int, list[int]] = {}
    for number, pool in enumerate(cluster.pools):
        found.setdefault(pool.group, []).append(number)
    return list(found.values())
