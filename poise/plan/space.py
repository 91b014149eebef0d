"""The space that is searched: every kind of fleet that could hold the SLO, cheapest by closed form first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from poise.core.spec import Pool
from poise.plan.bound import Bound, bound
from poise.plan.demand import Demand
from poise.plan.fleet_template import FleetTemplate, Same, Split
from poise.plan.goal import Goal
from poise.plan.mix import mixes
from poise.scenario.simulate import Cost

HALVES = 4
"""Kinds of replica that are paired for each half of a split, the cheapest of each device first."""

Bounded = tuple[Pool, Bound]


@dataclass(frozen=True, slots=True)
class Space:
    """Kinds by their least cost.  later: more of them, which take longer to make.  bounds: every replica with
    its closed form.  slow: those that cannot meet the SLO even with one request, whatever their number."""

    kinds: tuple[FleetTemplate, ...]
    later: Callable[[], Sequence[FleetTemplate]]
    bounds: tuple[Bounded, ...]
    slow: tuple[Bounded, ...]


def space(
    pools: Iterable[Pool],
    demand: Demand,
    goal: Goal,
    cost: Cost,
    *,
    available: Mapping[str, int] | None = None,
    split: bool = True,
    mix: bool = True,
) -> Space:
    """The kinds of fleet of `pools`.

    available: the most devices, by name.  split: whether prefill and decode may be separate.  mix: whether one role may
    have several kinds of replica; only where dollars are the objective, as the program has it.
    """
    bounds = [(pool, bound(pool, cost.build(pool), demand, goal)) for pool in pools]
    able = [each for each in bounds if each[1].meets(goal)]
    kinds: list[FleetTemplate] = [Same(pool, each, demand.rate, router(demand)) for pool, each in able]
    if split:
        kinds += splits(bounds, demand, goal)
    kinds.sort(key=lambda kind: (least(kind, demand, goal), kind.name))

    def later() -> Sequence[FleetTemplate]:
        return mixes(able, demand, goal, cost, available or {}) if mix and goal.minimize == "cost" else ()

    return Space(tuple(kinds), later, tuple(bounds), tuple(each for each in bounds if not each[1].meets(goal)))


def router(demand: Demand) -> str:
    """The initial router: one that follows prefixes where there are any to find."""
    return "prefix_cache" if demand.hit > 0 else "least_requests"


def splits(bounds: Sequence[Bounded], demand: Demand, goal: Goal) -> list[FleetTemplate]:
    """Pairs of a replica for prompts and one for output tokens, of those that are cheapest for each.

    The prefill side must meet the time to first token alone, the decode side the time per token.
    """
    ttft_s, tpot_s = goal.slo.ttft_s, goal.slo.tpot_s
    prompts = [each for each in bounds if ttft_s is None or each[1].ttft_s <= ttft_s]
    outputs = [each for each in bounds if tpot_s is None or each[1].tpot_s <= tpot_s]
    prefills = _cheapest(prompts, lambda pool, each: each.prefill_s * _weight(pool, goal))
    decodes = _cheapest(outputs, lambda pool, each: each.decode_s * _weight(pool, goal))
    return [
        Split(prefill, decode, (demand.rate * one.prefill_s, demand.rate * other.decode_s))
        for (prefill, one), (decode, other) in product(prefills, decodes)
    ]


def least(kind: FleetTemplate, demand: Demand, goal: Goal) -> float:
    """The objective at the kind's floor, a lower bound for every fleet of the kind that holds the SLO."""
    fleet = kind.fleet(kind.floor)
    if goal.minimize == "cost":
        return fleet.price_per_hour
    if goal.minimize == "gpus":
        return float(fleet.devices)
    return kind.watts / (demand.rate * (demand.prompt + demand.output)) * 1e6


def _cheapest(bounds: Sequence[Bounded], cost: Callable[[Pool, Bound], float]) -> list[Bounded]:
    """The `HALVES` cheapest, and the cheapest of each device if it is not among them."""
    ranked = sorted(bounds, key=lambda each: cost(*each))
    best = {pool.device.name: (pool, each) for pool, each in reversed(ranked)}
    return ranked[:HALVES] + [each for each in best.values() if each not in ranked[:HALVES]]


def _weight(pool: Pool, goal: Goal) -> float:
    """The objective per second of a replica: its price, its devices or its power."""
    if goal.minimize == "cost":
        return pool.devices * (pool.price_per_hour or 0.0)
    return pool.devices * (1.0 if goal.minimize == "gpus" else pool.power_w)
