"""Q-learning of the concurrency that one replica is to have, around Knative's autoscaler.

"AI-based Resource Allocation: Reinforcement Learning for Adaptive Auto-scaling in Serverless Environments" (arXiv
2005.14410). Knative (`kpa`) keeps a target of concurrent requests at each replica; which target is best depends on the
work, and is learned. State: the target, with two shares of use in ten steps. Action, one a measurement window: 20
fewer, as they are, or 20 more. Reward: throughput over its reference, divided by latency over its. ε-greedy.

Departures, where the paper was not at hand (state, actions and reward are as recalled in its summaries): targets lie in
[low, high] with 10 to 310 in steps of 20 as default; learning rate 0.5, discount 0.9 and ε 0.1 are ours; references are
the first window's. The shares of CPU and memory in use are here those of replicas with waiting requests, and of KV
blocks. The latency is the mean time to a request's end. All pools have one target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from poise.core.action import Scale
from poise.core.chance import Chance
from poise.core.event import Arrived, Event, Finished
from poise.core.units import SECOND, ps
from poise.core.view import FleetView
from poise.policies.kit.pool_metrics import total
from poise.policies.scale.kpa import Kpa as _Kpa

State = tuple[int, int, int]
ACTIONS = (-1, 0, 1)


@dataclass(slots=True)
class ConcurrencyRl:
    """Learn the target of `kpa`.

    start: the first target.  step: what an action adds.  low, high: bounds.  window_s: between two actions.
    rate: of learning.  discount: of what comes later.  explore: share of actions that are drawn.
    """

    start: int = 110
    step: int = 20
    low: int = 10
    high: int = 310
    window_s: float = 60.0
    rate: float = 0.5
    discount: float = 0.9
    explore: float = 0.1
    stable_s: float = 60.0
    period_s: float = 2.0
    _kpa: _Kpa = field(default_factory=_Kpa, init=False, repr=False, compare=False)
    _values: dict[tuple[State, int], float] = field(default_factory=dict, init=False, repr=False, compare=False)
    _last: tuple[State, int] | None = field(default=None, init=False, repr=False, compare=False)
    _due: int = field(default=0, init=False, repr=False, compare=False)
    _arrived: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _done: list[int] = field(default_factory=list, init=False, repr=False, compare=False)
    _reference: tuple[float, float] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.start <= self.high or self.step < 1:
            raise ValueError("start lies in [low, high], low is 1 or more, and so is step")
        if not (0 < self.rate <= 1 and 0 <= self.discount < 1 and 0 <= self.explore <= 1):
            raise ValueError("rate lies in (0, 1], discount in [0, 1) and explore in [0, 1]")
        if self.window_s < self.period_s:
            raise ValueError(f"window_s {self.window_s} is shorter than period_s {self.period_s}; give more")
        self._kpa = _Kpa(
            target=float(self.start), utilisation=1.0, stable_s=self.stable_s, panic_s=self.stable_s / 10,
            period_s=self.period_s,
        )  # fmt: skip

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("requests", "waiting", "free_blocks")

    @property
    def target(self) -> int:
        """Concurrent requests that a replica is to have now."""
        return int(self._kpa.target)

    def observe(self, event: Event) -> None:
        """Record the latency and number of ended requests."""
        if type(event) is Arrived:
            self._arrived.setdefault(event.request.id, event.at)
        elif type(event) is Finished and event.request in self._arrived:
            self._done.append(event.at - self._arrived.pop(event.request))

    def scale(self, cluster: FleetView, chance: Chance) -> Sequence[Scale]:
        """The result of `kpa` with the target of this window."""
        if not self._due:
            self._due = cluster.now + ps(self.window_s)
        elif cluster.now >= self._due and self._done:
            self._due = cluster.now + ps(self.window_s)
            self._act(self._state(cluster), chance)
        return self._kpa.scale(cluster, chance)

    def _state(self, cluster: FleetView) -> State:
        serving = [replica for pool in cluster.pools for replica in pool.serving]
        if not serving:
            return self.target, 0, 0
        waits = sum(cluster.waiting[replica] > 0 for replica in serving)
        used = sum(total(cluster, pool, "kv") for pool in cluster.pools)
        return self.target, int(10 * waits / len(serving)), int(10 * used / len(serving))

    def _act(self, state: State, chance: Chance) -> None:
        """Learn from the last window, and choose for the next."""
        reward = self._reward()
        can = [each for each in ACTIONS if self.low <= self.target + each * self.step <= self.high]
        best = max(self._values.get((state, each), 0.0) for each in can)
        if self._last is not None:
            old = self._values.get(self._last, 0.0)
            self._values[self._last] = old + self.rate * (reward + self.discount * best - old)
        if chance.draw("explore") < self.explore:
            action = chance.pick(can, "action")
        else:
            action = chance.least(can, lambda each: -self._values.get((state, each), 0.0))
        self._last = state, action
        self._kpa.target += action * self.step

    def _reward(self) -> float:
        """Throughput by latency, each against the first window's."""
        throughput = len(self._done) / self.window_s
        latency = sum(self._done) / len(self._done) / SECOND
        self._done.clear()
        if self._reference is None:
            self._reference = throughput, latency
        return (throughput / self._reference[0]) / (latency / self._reference[1])
