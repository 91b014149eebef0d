"""How sure it is that a fleet holds its SLO, from how far predictions of its kind were found to be off.

A limit holds where measured over predicted time stays below the limit over the predicted value. Errors of several
limits may depend on one another in any way, so a fleet's confidence is 1 less the sum of the chances that each limit is
passed (Bonferroni's inequality): it is never too high, and for limits that hold with 90 % each, 80 % in place of the
81 % of independent errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product

from poise.core.spec import Engine, Pool, Slo
from poise.intervals.conditions import Conditions, FigureKind
from poise.intervals.interval import Interval
from poise.intervals.own import Own, narrowed
from poise.intervals.shipped import shipped
from poise.plan.fleet import Fleet
from poise.scenario.engine_cost import EngineCost
from poise.scenario.evidence import conditions

KINDS: Mapping[str, FigureKind] = {"ttft_s": "ttft", "tpot_s": "tpot", "e2e_s": "e2e", "program_s": "e2e"}
"""The kind of figure of each limit; a program's time is a sum of its requests' times."""

TAIL = 0.9
"""The share of the requests from which on a limit is one of the tail, as in `poise.intervals.conditions`."""

CONFIDENCE = 0.8
"""With which confidence `poise plan` wants a fleet to hold, where no other is given."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """What is known of a cost's error. tail: whether limits are on the tail.  own: measurements of one's own.

    more: points that are taken to be measured besides, and to find what is expected.
    """

    engine: str = "vllm"
    version: str = ""
    tail: bool = True
    own: Own = field(default_factory=Own)
    more: int = 0

    def confidence(self, fleet: Fleet, slo: Slo, reached: Mapping[str, float | None]) -> float:
        """With which confidence the limits of `slo` hold where predicted values are `reached`, in [0, 1]."""
        return max(0.0, 1 - sum(self.missed(fleet, slo, reached).values()))

    @property
    def without_own(self) -> Doubt:
        """The same without measurements of one's own."""
        return replace(self, own=Own())

    def missed(self, fleet: Fleet, slo: Slo, reached: Mapping[str, float | None]) -> dict[str, float]:
        """By limit: the chance that it is passed; 1 where too few requests finished."""
        found = {}
        for name in KINDS:
            limit, value = getattr(slo, name), reached.get(name)
            if limit is not None:
                found[name] = 1 - self._below(fleet, name, limit / value) if value else 1.0
        return found

    def _below(self, fleet: Fleet, name: str, factor: float) -> float:
        """The least share of measured values below `factor` times the predicted one, over the pools that serve it."""
        return min(each.below(factor) for each in self.intervals(fleet, name))

    def intervals(self, fleet: Fleet, name: str) -> tuple[Interval, ...]:
        """The intervals of a limit's figure, one for each kind of replica that it may be measured on."""
        return tuple(_interval(self, KINDS[name], pools) for pools in _served(fleet))

    def conditions(self, fleet: Fleet, name: str) -> tuple[Conditions, ...]:
        """The conditions of these intervals."""
        return tuple(_conditions(self, KINDS[name], pools) for pools in _served(fleet))


def doubt_of(cost: object, attainment: float, own: Own | None = None) -> Doubt | str:
    """What is known of the error of a cost; where intervals are not stated for it, the reason."""
    if not isinstance(cost, EngineCost):
        return "it is known of costs of an engine only"
    if cost.speculative is not None:
        return "few measured runs have drafts"
    return Doubt(cost.engine, cost.version, attainment >= TAIL, own or Own())


def _served(fleet: Fleet) -> Iterator[tuple[Pool, ...]]:
    """Pools that a request may pass through: one of each role."""
    roles = ("prefill", "decode") if fleet.split else ("mixed",)
    yield from product(*([_bare(pool) for pool in fleet.pools if pool.role == role] for role in roles))


def _bare(pool: Pool) -> Pool:
    """The pool without what does not matter to its error, so that fleets share intervals."""
    return replace(pool, replicas=1, engine=Engine(), name="", price_per_hour=0.0, power_cap_w=0.0)


@lru_cache(4096)
def _conditions(doubt: Doubt, kind: FigureKind, pools: tuple[Pool, ...]) -> Conditions:
    return conditions(kind, pools, doubt.engine, doubt.version, tail=doubt.tail)


@lru_cache(4096)
def _interval(doubt: Doubt, kind: FigureKind, pools: tuple[Pool, ...]) -> Interval:
    of, calibration = _conditions(doubt, kind, pools), shipped()
    return narrowed(calibration.interval(of), of, doubt.own, calibration, doubt.more)
