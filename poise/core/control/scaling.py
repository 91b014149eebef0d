"""The scaler's decisions: called once a period, kept within the bounds of the pools, and notified of changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from poise.core.action import Convert, Scale
from poise.core.chance import Chance
from poise.core.control.state import SERVING, State, takes
from poise.core.errors import PolicyError
from poise.core.policy import Forecaster, Scaler
from poise.core.request import RequestView
from poise.core.spec import PoolSpec, Role
from poise.core.units import ps

AHEAD_S: Final = 60.0
"""Default forecast horizon in seconds, where neither the scaler nor a pool has one."""


@dataclass(slots=True)
class PoolState:
    """The control side's belief of a pool; a `PoolView`."""

    name: str
    min_replicas: int
    max_replicas: int
    wanted: int
    warm: int
    start_s: float
    warm_start_s: float
    serving: Sequence[int] = field(default=())
    held: int = 0
    group: int = 0


class Scaling:
    """Calls `scaler` at the first tick at or after each multiple of its period.

    pools: their known properties.  forecast: predicts `State.rate`, if there is one.  held: the waiting requests.
    beat: picoseconds between two decisions; the driver of the control side sends a `Tick` at each multiple of it.
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
        self._ahead = ps(getattr(scaler, "ahead_s", 0.0) or longest or AHEAD_S)
        self._state = state
        self._held = held
        self._chance = chance
        self._due = 0
        self._turning: dict[int, Role] = {}  # who is on its way to another role

    def changes(self) -> list[Scale | Convert]:
        """The changes to make now; none between two beats."""
        state, now = self._state, self._state.now
        if now < self._due:
            return []
        self._due = (now // self.beat + 1) * self.beat
        self._look()
        self._chance.key = now // self.beat
        if self.forecast is not None:
            state.rate = self.forecast.forecast(now, now + self._ahead, self._chance)
        answers = self.scaler.scale(state, self._chance)
        return [done for each in answers if (done := self._taken(each)) is not None]

    def _look(self) -> None:
        """The serving replicas of each pool and role, and how many requests wait for it."""
        state, status = self._state, self._state.status
        waiting: dict[tuple[int, int], int] = {}
        for request in self._held:
            key = state.model_and_tenant(request)
            waiting[key] = waiting.get(key, 0) + 1
        firsts: dict[tuple[int, tuple[int, ...]], int] = {}
        for number, pool in enumerate(self.pools):
            own = [(each, spec) for each, spec in enumerate(state.replicas) if spec.pool == number]
            pool.serving = tuple(each for each, _ in own if status[each] == SERVING)
            pool.held = sum(
                count
                for key, count in waiting.items()
                if any(spec.role != "decode" and takes(spec, *key) for _, spec in own)
            )
            pool.group = firsts.setdefault((own[0][1].model, own[0][1].tenants), number) if own else number
        self._turning = {each: role for each, role in self._turning.items() if status[each] != SERVING}
        state.roles = [self._turning.get(each, spec.role) for each, spec in enumerate(state.replicas)]

    def _taken(self, answer: Any) -> Scale | Convert | None:
        """A decision within the bounds, recorded; None where it changes nothing."""
        if type(answer) is Convert:
            return self._converted(answer)
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

    def _converted(self, answer: Convert) -> Convert | None:
        """A change of a role, where another replica still serves what the replica serves now."""
        state, (replica, role) = self._state, answer
        if not 0 <= replica < len(state.replicas) or state.status[replica] != SERVING or role not in get_args(Role):
            raise PolicyError(
                f"{self._name} answers {answer!r}; it must give a replica that serves, and one of the roles "
                f"{', '.join(get_args(Role))}"
            )
        if replica in self._turning or role == state.replicas[replica].role or not self._spared(replica):
            return None
        self._turning[replica] = role
        return answer

    def _spared(self, replica: int) -> bool:
        """Whether the remaining serving replicas suffice without it."""
        state, own = self._state, self._state.replicas[replica]
        roles = {
            spec.role
            for each, spec in enumerate(state.replicas)
            if each != replica
            and each not in self._turning
            and state.status[each] == SERVING
            and (spec.model, spec.tenants) == (own.model, own.tenants)
        }
        return "mixed" in roles or roles >= {"prefill", "decode"}
