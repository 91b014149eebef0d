"""The scaler's decisions: asked at every beat, held to the bounds of the pools, and told where something changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from poise.core.action import Scale
from poise.core.chance import Chance
from poise.core.errors import PolicyError
from poise.core.policy import Forecaster, Scaler
from poise.core.request import RequestView
from poise.core.spec import PoolSpec, ReplicaSpec
from poise.core.state import SERVING, State
from poise.core.units import ps

UNTOLD: Final = 60.0
"""Seconds that are looked ahead where neither the scaler nor a pool says how far."""


@dataclass(slots=True)
class PoolState:
    """A pool as the control side believes it to be; a `PoolView`."""

    name: str
    min_replicas: int
    max_replicas: int
    wanted: int
    warm: int
    start_s: float
    warm_start_s: float
    serving: Sequence[int] = field(default=())
    held: int = 0


class Scaling:
    """Asks `scaler` at the first tick at or behind each multiple of its period.

    pools: what is told of them beforehand.  forecast: foretells `State.rate`, if there is one.  held: who waits.
    beat: picoseconds between two decisions; whoever drives the control side sends a `Tick` at each multiple of it.
    """

    def __init__(
        self,
        scaler: Scaler,
        forecast: Forecaster | None,
        pools: Sequence[PoolSpec],
        state: State,
        held: Iterable[RequestView],
        chance: Chance,
    ) -> None:
        self.scaler = scaler
        self.forecast = forecast
        self._name = type(scaler).__name__
        if not scaler.period_s > 0:
            raise PolicyError(f"{self._name}.period_s is {scaler.period_s!r}; give seconds above 0, as in 15")
        self.beat = ps(scaler.period_s)
        self.pools = state.pools = [
            PoolState(
                each.name, each.min_replicas, each.max_replicas, each.replicas, each.warm, each.start_s,
                each.warm_start_s,
            )
            for each in pools
        ]  # fmt: skip
        longest = max((each.start_s for each in pools), default=0.0)
        self._ahead = ps(getattr(scaler, "ahead_s", 0.0) or longest or UNTOLD)
        self._state = state
        self._held = held
        self._chance = chance
        self._due = 0

    def asked(self) -> list[Scale]:
        """What is to change now; nothing between two beats."""
        state, now = self._state, self._state.now
        if now < self._due:
            return []
        self._due = (now // self.beat + 1) * self.beat
        self._look()
        self._chance.key = now // self.beat
        if self.forecast is not None:
            state.rate = self.forecast.foresee(now, now + self._ahead, self._chance)
        return [done for each in self.scaler.scale(state, self._chance) if (done := self._taken(each)) is not None]

    def _look(self) -> None:
        """Who serves in each pool, and how many wait for it."""
        replicas, status = self._state.replicas, self._state.status
        waiting: dict[int, int] = {}
        for request in self._held:
            waiting[request.model] = waiting.get(request.model, 0) + 1
        for number, pool in enumerate(self.pools):
            own = [(each, spec) for each, spec in enumerate(replicas) if spec.pool == number]
            pool.serving = tuple(each for each, _ in own if status[each] == SERVING)
            pool.held = sum(count for model, count in waiting.items() if any(_takes(spec, model) for _, spec in own))

    def _taken(self, answer: Scale) -> Scale | None:
        """A decision within the bounds, entered; None where it changes nothing."""
        if type(answer) is not Scale or not 0 <= answer.pool < len(self.pools) or answer.warm < 0:
            raise PolicyError(
                f"{self._name} answers {answer!r}; it must be a Scale of one of the pools 0 to {len(self.pools) - 1}"
            )
        pool = self.pools[answer.pool]
        replicas = min(max(answer.replicas, pool.min_replicas), pool.max_replicas)
        if (replicas, answer.warm) == (pool.wanted, pool.warm):
            return None
        pool.wanted, pool.warm = replicas, answer.warm
        return Scale(answer.pool, replicas, answer.warm)


def _takes(spec: ReplicaSpec, model: int) -> bool:
    return spec.role != "decode" and spec.model in (-1, model)
