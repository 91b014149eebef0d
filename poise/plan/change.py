"""What would change a plan: more load, other prices, a looser SLO, a lost replica."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from poise.plan.fleet import Fleet, unit_name
from poise.plan.goal import PARTS, Goal
from poise.plan.trial import Bench, Trial
from poise.workload import Workload

MOST_LOAD, STEPS = 2.0, 4
"""The highest factor on the load that is tried, and how often the range is halved: to 6 % of the load."""

LOOSER = 1.5
"""By how much a limit may be loosened to be worth reporting."""


@dataclass(frozen=True, slots=True)
class Changes:
    """load: the factor on the rate up to which the plan was seen to hold, and whether it may hold beyond.

    lost: the share that still meets the SLO with one replica less of each pool, by the pool's name, all the time.
    break_even: dollars per device-hour below which a plan of that device would be the best, by its name.
    looser: cheaper fleets and the limits (seconds) with which they would hold.
    """

    load: float
    beyond: bool
    lost: dict[str, float]
    break_even: dict[str, float]
    looser: tuple[tuple[str, float, dict[str, float]], ...]


def changes(best: Trial, trials: Sequence[Trial], bench: Bench) -> Changes:
    """What would change `best`. trials: all that were simulated on the way."""
    load, beyond = headroom(best.fleet, bench)
    return Changes(
        load, beyond, dict(_lost(best.fleet, bench)), _break_even(best, trials, bench.goal),
        tuple(_looser(best, trials, bench.goal)),
    )  # fmt: skip


def headroom(fleet: Fleet, bench: Bench) -> tuple[float, bool]:
    """The largest factor on the load at which the fleet was seen to hold, and whether none failed."""
    low, high = 1.0, MOST_LOAD
    if _holds(fleet, bench, high):
        return high, True
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _holds(fleet, bench, middle) else (low, middle)
    return low, False


def squeezed(workload: Workload, factor: float) -> Workload:
    """The same requests in 1/`factor` of the time; think times of successors stay."""
    return replace(workload, arrival=(workload.arrival / factor).astype(workload.arrival.dtype))


def _holds(fleet: Fleet, bench: Bench, factor: float) -> bool:
    loads = [squeezed(each, factor) for each in bench.demand.stretches]
    return bench.trial(fleet, loads, patience=1.0).meets(bench.goal)


def _lost(fleet: Fleet, bench: Bench) -> Iterator[tuple[str, float]]:
    """The share that meets the SLO without one replica of a pool; 0 where it has no other."""
    for pool in fleet.pools:
        counts = tuple(each.replicas - (each is pool) for each in fleet.pools)
        name = unit_name(pool)
        alone = pool.replicas == 1 and (fleet.split or len(fleet.pools) == 1)
        yield name, 0.0 if alone else bench.trial(fleet.with_replicas(counts)).attainment


def _break_even(best: Trial, trials: Sequence[Trial], goal: Goal) -> dict[str, float]:
    """The price at which a device that the best plan does not use would cost the same, by its name."""
    if goal.minimize != "cost":
        return {}
    prices: dict[str, float] = {}
    for trial in trials:
        names = trial.fleet.by_device
        if trial.meets(goal) and len(names) == 1 and not set(names) & set(best.fleet.by_device):
            name, count = next(iter(names.items()))
            prices[name] = max(prices.get(name, 0.0), best.fleet.price_per_hour / count)
    return prices


def _looser(best: Trial, trials: Sequence[Trial], goal: Goal) -> Iterator[tuple[str, float, dict[str, float]]]:
    """Fleets that are better but exceed limits by no more than `LOOSER`; the best of each set of limits."""
    limits = {name: value for name in PARTS if (value := getattr(goal.slo, name)) is not None}
    seen: set[frozenset[str]] = set()
    for trial in sorted(trials, key=lambda each: (each.value(goal), -each.attainment)):
        reached = {name: getattr(trial, name) for name in limits}
        if trial.value(goal) >= best.value(goal) or any(value is None for value in reached.values()):
            continue
        over = {name: value for name, value in reached.items() if value > limits[name]}
        if over and frozenset(over) not in seen and all(over[name] <= LOOSER * limits[name] for name in over):
            seen.add(frozenset(over))
            yield trial.fleet.written, trial.value(goal), over
