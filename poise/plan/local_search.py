"""Varies settings of a fleet that the main search keeps fixed: its router, batch limits and single replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from poise.catalogue.engines import limit_ranks
from poise.core.spec import Engine, Pool
from poise.plan.demand import Demand
from poise.plan.fleet import Fleet
from poise.plan.fleet_template import FleetTemplate, Single
from poise.plan.trial import Trial

ROUTERS = ("least_requests", "least_tokens", "prefix_cache", "min_ttft")
"""Routers to try for mixed replicas; for a split also `pd_pair`."""

BUDGETS = (2048, 4096, 8192, 16384)
"""Token budgets of a step (`max_num_batched_tokens`, `chunked_prefill_size`)."""

SEQUENCES = (64, 128, 256, 512, 1024)
"""Limits of requests that run at once (`max_num_seqs`, `max_running_requests`)."""

HOPE, SETTLED = 0.5, 0.9995
"""The share that a smaller fleet must have met for other settings to be worth a try, and the share from which a fleet
can gain nothing by them."""


@dataclass(frozen=True)
class Variant:
    """A kind's ladder with another router or other limits, from the rung `floor` on; the climb begins at `first`."""

    kind: FleetTemplate
    first: int
    floor: int
    router: str = ""
    token_budget: int = 0
    max_sequences: int = 0

    @property
    def name(self) -> str:
        """The kind and its changed settings."""
        changes = {"router": self.router, "budget": self.token_budget, "sequences": self.max_sequences}
        return ", ".join([self.kind.name, *(f"{name} {value}" for name, value in changes.items() if value)])

    @property
    def watts(self) -> float:
        """That of the kind."""
        return self.kind.watts

    def fleet(self, rung: int) -> Fleet:
        """The kind's fleet with the changes."""
        fleet = self.kind.fleet(rung)
        pools = tuple(replace(pool, engine=self._engine(pool)) for pool in fleet.pools)
        return Fleet(pools, self.router or fleet.router)

    def _engine(self, pool: Pool) -> Engine:
        engine, ranks = pool.engine, limit_ranks(pool)
        budget = self.token_budget * ranks or engine.token_budget
        sequences = self.max_sequences * ranks or engine.max_sequences
        return replace(engine, token_budget=budget, max_sequences=sequences)


def variants(kind: FleetTemplate, best: Trial, trials: Iterable[Trial], demand: Demand) -> Iterator[FleetTemplate]:
    """Ladders that differ from `kind` in one setting, where that can do something.

    best: the trial of the kind's lowest rung that holds.  trials: all there were. A lower rung is tried where it failed
    by less than `HOPE`; the same rung where there is something left to gain.
    """
    rung, below = _rung(kind, best), lower(kind, best)(trials)
    if below is not None:
        yield from _settings(kind, rung - 1, kind.floor, best.fleet, demand)
    elif best.attainment < SETTLED:
        yield from _settings(kind, rung, rung, best.fleet, demand)


def lower(kind: FleetTemplate, best: Trial) -> Callable[[Iterable[Trial]], Trial | None]:
    """Finds, among trials, that of the rung below the best one, if more than `HOPE` met the SLO there."""
    rung = _rung(kind, best)
    fleet = kind.fleet(rung - 1) if rung > 1 else None
    return lambda trials: next((each for each in trials if each.fleet == fleet and each.attainment > HOPE), None)


def _rung(kind: FleetTemplate, best: Trial) -> int:
    return next(rung for rung in count(kind.floor) if kind.fleet(rung) == best.fleet)


def fewer(fleet: Fleet) -> Iterator[FleetTemplate]:
    """Fleets that differ from one of several pools in one replica."""
    if len(fleet.pools) > 1:
        counts = [pool.replicas for pool in fleet.pools]
        yield from (Single(fleet.with_replicas(each)) for each in neighbours(counts))


def _settings(kind: FleetTemplate, first: int, floor: int, fleet: Fleet, demand: Demand) -> Iterator[FleetTemplate]:
    routers = [name for name in ROUTERS if demand.hit > 0 or name != "prefix_cache"]
    for name in [*routers, *(["pd_pair"] if fleet.split else [])]:
        if name != fleet.router and _choice(kind.fleet(first)):
            yield Variant(kind, first, floor, router=name)
    limits = {(pool.engine, limit_ranks(pool)) for pool in fleet.pools}
    for budget in BUDGETS:
        if any(engine.token_budget != budget * ranks for engine, ranks in limits):
            yield Variant(kind, first, floor, token_budget=budget)
    for sequences in SEQUENCES:
        if any(engine.max_sequences != sequences * ranks for engine, ranks in limits):
            yield Variant(kind, first, floor, max_sequences=sequences)


def _choice(fleet: Fleet) -> bool:
    """Whether a router has a choice: a role with several replicas."""
    roles = [pool.role for pool in fleet.pools for _ in range(pool.replicas)]
    return len(set(roles)) < len(roles)


def neighbours(counts: Sequence[int]) -> list[tuple[int, ...]]:
    """Counts with one replica less, or with one moved to another pool; every pool keeps one."""
    found = []
    for less, replicas in enumerate(counts):
        if replicas > 1:
            left = [n - (at == less) for at, n in enumerate(counts)]
            found.append(tuple(left))
            others = [more for more in range(len(counts)) if more != less]
            found += [tuple(n + (at == more) for at, n in enumerate(left)) for more in others]
    return found
