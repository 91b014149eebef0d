"""Fleets of several kinds of replica: Mélange's integer program over a histogram of the demand's sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log

import numpy as np

from poise.core.errors import CapacityError
from poise.core.placement import Bucket, Unit
from poise.core.placement import Demand as Sizes
from poise.core.spec import Pool
from poise.plan.bound import Bound, bound
from poise.plan.demand import Demand
from poise.plan.fleet import Fleet, unit_name
from poise.plan.fleet_template import DOUBT, Mix
from poise.plan.goal import Goal
from poise.policies.place.melange import Melange
from poise.scenario.simulate import Cost

PROMPTS, OUTPUTS = 4, 3
"""Bins of the histogram: prompts by quantile, and output tokens by quantile within each."""

EACH = 2
"""Kinds of replica of each device that take part, the cheapest per request first."""

STEP, RUNGS = 1.08, 13
"""Factor on the demand from one rung to the next, and how many there are: the program leaves no room for chance, and
the simulation shows how much is needed. The first rung has the same margin as every closed form."""

FIRST = 1 + ceil(log(DOUBT) / log(STEP))
"""The rung at which the closed form asks for its own demand."""

ROUTERS = ("min_ttft", "least_tokens")
"""Routers that take differences between replicas into account."""


def mixes(
    bounds: Sequence[tuple[Pool, Bound]], demand: Demand, goal: Goal, cost: Cost, available: Mapping[str, int]
) -> list[Mix]:
    """Ladders of mixed fleets, one for each router; none where the program wants one kind of replica only.

    bounds: replicas with their closed forms.  available: the most devices, by name.
    """
    pools = _taken(bounds)
    if len({pool.device.name for pool in pools}) < 2:
        return []
    sizes = histogram(demand)
    program = Mixed(pools, tuple(_unit(pool, sizes, demand, goal, cost) for pool in pools), sizes, available)
    try:
        fleets = [program.fleet(rung) for rung in (1, FIRST)]
    except CapacityError:
        return []
    units = dict.fromkeys(unit_name(pool) for fleet in fleets for pool in fleet.pools)
    if len(units) < 2:
        return []
    return [Mix(f"{' + '.join(units)}, {name}", replace(program, router=name).fleet, RUNGS, FIRST) for name in ROUTERS]


@dataclass(frozen=True)
class Mixed:
    """The program: kinds of replica, the histogram, and the most devices by name."""

    pools: tuple[Pool, ...]
    units: tuple[Unit, ...]
    sizes: Sizes
    available: Mapping[str, int]
    router: str = "least_requests"
    _made: dict[int, Fleet] = field(default_factory=dict, compare=False, repr=False)

    def fleet(self, rung: int) -> Fleet:
        """The cheapest mix for the load of a rung; CapacityError where devices run out."""
        if rung not in self._made:
            load = STEP ** (rung - 1) / DOUBT
            scaled = Sizes(tuple(bucket._replace(rate=bucket.rate * load) for bucket in self.sizes.buckets))
            limits = {name: n for name, n in self.available.items() if name in {unit.device for unit in self.units}}
            counts = Melange().place(scaled, self.units, limits).counts
            chosen = tuple(replace(pool, replicas=n) for pool, n in zip(self.pools, counts, strict=True) if n)
            self._made[rung] = Fleet(chosen)
        return replace(self._made[rung], router=self.router)


def histogram(demand: Demand) -> Sizes:
    """The demand's requests by size: prompts and, within them, outputs in bins of equal numbers, at their means."""
    stretch = demand.stretches[0]
    order = np.lexsort((stretch.output, stretch.prompt))
    buckets = []
    for some in np.array_split(order, PROMPTS):
        for few in np.array_split(some[np.argsort(stretch.output[some], kind="stable")], OUTPUTS):
            if len(few):
                rate = demand.rate * len(few) / len(stretch)
                buckets.append(
                    Bucket(round(stretch.prompt[few].mean()), max(1, round(stretch.output[few].mean())), rate)
                )
    return Sizes(tuple(buckets))


def _taken(bounds: Sequence[tuple[Pool, Bound]]) -> tuple[Pool, ...]:
    """Of each device the replicas that serve a request at the lowest price."""
    ranked = sorted(
        ((pool.devices * (pool.price_per_hour or 0.0) / each.rate, unit_name(pool), pool) for pool, each in bounds),
        key=lambda row: row[:2],
    )
    taken: dict[str, list[Pool]] = {}
    for price, _, pool in ranked:
        chosen = taken.setdefault(pool.device.name, [])
        if price and len(chosen) < EACH:
            chosen.append(pool)
    return tuple(pool for chosen in taken.values() for pool in chosen)


def _unit(pool: Pool, sizes: Sizes, demand: Demand, goal: Goal, cost: Cost) -> Unit:
    """A replica as the program's input: its closed form on each bucket alone."""
    estimator = cost.build(pool)
    rates = []
    for bucket in sizes.buckets:
        alone = replace(
            demand, prompt=bucket.prompt_tokens, output=bucket.output_tokens, long_prompt=bucket.prompt_tokens
        )
        each = bound(pool, estimator, alone, goal)
        rates.append(each.rate if each.meets(goal) else 0.0)
    price = pool.devices * (pool.price_per_hour or 0.0)
    return Unit(unit_name(pool), price, tuple(rates), pool.device.name, pool.devices)
