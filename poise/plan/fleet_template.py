"""Kinds of fleet, each a ladder: equal replicas, separate prefill and decode, or a mix; each rung is a little larger.

The search climbs a ladder to the first rung that holds the SLO in simulation. A ladder knows by closed form where to
begin (`first`) and below which rung nothing can do (`floor`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Protocol

from poise.core.power import POWER
from poise.core.spec import Pool
from poise.plan.bound import Bound
from poise.plan.fleet import Fleet, unit_name
from poise.plan.unit import alone
from poise.report.spending import IDLE_SHARE

DOUBT = 1.1
"""The factor by which a replica may exceed its closed form before a rung is considered too low."""


class FleetTemplate(Protocol):
    """One ladder of fleets; rungs count from 1."""

    @property
    def name(self) -> str:
        """What the fleets are made of."""
        ...

    @property
    def first(self) -> int:
        """The rung that is enough by the closed form."""
        ...

    @property
    def floor(self) -> int:
        """The lowest rung that could be enough if replicas carried `DOUBT` times their closed form."""
        ...

    @property
    def watts(self) -> float:
        """A lower bound on the mean power of the floor's devices: idle always, busy as long as the work takes."""
        ...

    def fleet(self, rung: int) -> Fleet:
        """The fleet of a rung."""
        ...


def at_least(fleet: Fleet, busy: tuple[float, ...]) -> float:
    """Watts of a fleet whose pools have these numbers of busy replicas by the closed form."""
    idle = work = 0.0
    for n, pool in zip(busy, fleet.pools, strict=True):
        rest = IDLE_SHARE * pool.device.tdp_w
        idle += pool.replicas * pool.devices * rest
        least = min(pool.power_w, POWER.decode * pool.device.tdp_w) if pool.power_cap_w else pool.device.tdp_w
        work += n / DOUBT * pool.devices * (least - rest)
    return idle + work


@dataclass(frozen=True)
class Same:
    """Equal replicas, one more on each rung. rate: requests per second to be carried."""

    pool: Pool
    bound: Bound
    rate: float
    router: str = "least_requests"

    @property
    def name(self) -> str:
        """The replica."""
        return unit_name(self.pool)

    @property
    def first(self) -> int:
        """Replicas by the closed form."""
        return max(1, ceil(self.rate / self.bound.rate))

    @property
    def floor(self) -> int:
        """Replicas if each carried `DOUBT` times as much."""
        return max(1, ceil(self.rate / self.bound.rate / DOUBT))

    @property
    def watts(self) -> float:
        """See `FleetTemplate`."""
        return at_least(self.fleet(self.floor), (self.rate / self.bound.rate,))

    def fleet(self, rung: int) -> Fleet:
        """A fleet of `rung` replicas."""
        return Fleet((replace(self.pool, replicas=rung),), self.router)


@dataclass(frozen=True)
class Split:
    """Prefill on one kind of replica, decode on another; a rung adds a replica where it is needed next.

    needs: replicas of prefill and of decode by the closed form, as numbers with a fraction: their ratio is the way up.
    """

    prefill: Pool
    decode: Pool
    needs: tuple[float, float]
    router: str = "pd_pair"
    _rungs: list[tuple[int, int]] = field(default_factory=lambda: [(1, 1)], compare=False, repr=False)

    @property
    def name(self) -> str:
        """Both replicas."""
        return f"{unit_name(alone(self.prefill, 'prefill'))} + {unit_name(alone(self.decode, 'decode'))}"

    @property
    def first(self) -> int:
        """The rung at which both halves have their closed form's replicas."""
        return self._enough(1.0)

    @property
    def floor(self) -> int:
        """The same if each replica carried `DOUBT` times as much."""
        return self._enough(1 / DOUBT)

    @property
    def watts(self) -> float:
        """See `FleetTemplate`."""
        return at_least(self.fleet(self.floor), self.needs)

    def fleet(self, rung: int) -> Fleet:
        """Both pools of a rung."""
        prefill, decode = self._counts(rung)
        pools = (
            replace(alone(self.prefill, "prefill"), replicas=prefill),
            replace(alone(self.decode, "decode"), replicas=decode),
        )
        return Fleet(pools, self.router)

    def _enough(self, share: float) -> int:
        rung = 1
        while any(have < need * share for have, need in zip(self._counts(rung), self.needs, strict=True)):
            rung += 1
        return rung

    def _counts(self, rung: int) -> tuple[int, int]:
        """Replicas of both on a rung: the half that is shorter of what it needs gets the next one."""
        while len(self._rungs) < rung:
            prefill, decode = self._rungs[-1]
            shorter = prefill / self.needs[0] <= decode / self.needs[1]
            self._rungs.append((prefill + 1, decode) if shorter else (prefill, decode + 1))
        return self._rungs[rung - 1]


@dataclass(frozen=True)
class Mix:
    """Fleets of several kinds of replica, each made when its rung is needed; beyond the last rung, the last one.

    make: the fleet of a rung.  rungs: how many there are.  first: where the climb begins.
    """

    name: str
    make: Callable[[int], Fleet]
    rungs: int
    first: int = 1
    floor: int = 1

    @property
    def watts(self) -> float:
        """The power of idle devices: how the work is shared is not known beforehand."""
        return self.fleet(self.floor).idle_w

    def fleet(self, rung: int) -> Fleet:
        """The fleet of a rung."""
        return self.make(min(rung, self.rungs))


@dataclass(frozen=True)
class Single:
    """A ladder of one fleet."""

    only: Fleet
    first: int = 1
    floor: int = 1

    @property
    def name(self) -> str:
        """The fleet."""
        return f"{self.only.written}, {self.only.router}"

    @property
    def watts(self) -> float:
        """The power of idle devices."""
        return self.only.idle_w

    def fleet(self, rung: int) -> Fleet:
        """The fleet."""
        return self.only
