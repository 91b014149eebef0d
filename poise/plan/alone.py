"""What predicted values alone would choose: what the confidence of a plan costs."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from poise.plan.fleet import Fleet
from poise.plan.limits import Limits
from poise.plan.search import SearchResult
from poise.plan.trial import Bench, Trial


def alone(found: SearchResult, limits: Limits, best: Trial | None = None) -> Trial | None:
    """The best fleet by predicted values alone: of those tried, then with as few replicas as hold.

    best: the plan, which is the answer where no other is better.  None where the goal asks for no confidence.
    """
    goal = found.bench.goal
    if goal.confidence is None or found.bench.doubt is None:
        return None
    holding = [each for each in found.trials if not each.cut and each.meets(goal.predicted)]
    first = min([*holding, *([best] if best else [])], key=found.rank, default=None)
    if first is None:
        return None
    bench = replace(found.bench, demand=found.bench.demand.bare)
    fewest = _fewest(first, bench, limits)
    return best if best is not None and fewest.value(goal) >= searched_value(found, best) else fewest


def searched_value(found: SearchResult, best: Trial | None) -> float:
    """The objective of the plan on the traffic of the search, by which others can be compared with it; energy varies.

    Infinite without a plan.
    """
    if best is None:
        return inf
    searched = next((each for each in found.trials if each.fleet == best.fleet and not each.cut), best)
    return searched.value(found.bench.goal)


def _fewest(trial: Trial, bench: Bench, limits: Limits) -> Trial:
    """The trial of the fleet with one replica less, as long as one holds by predicted values."""
    for fleet in _less(trial.fleet):
        if not limits.why(fleet):
            less = bench.trial(fleet, patience=1.0)
            if less.meets(bench.goal.predicted):
                return _fewest(less, bench, limits)
    return trial


def _less(fleet: Fleet) -> list[Fleet]:
    """The fleets with one replica less, every pool keeping one."""
    counts = [pool.replicas for pool in fleet.pools]
    return [
        fleet.with_replicas(tuple(n - (at == less) for at, n in enumerate(counts)))
        for less, replicas in enumerate(counts)
        if replicas > 1
    ]
