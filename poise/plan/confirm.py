"""Confirms the final plan: the best found fleet that also holds on traffic not used in the search."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from poise.plan.limits import Limits
from poise.plan.search import SearchResult
from poise.plan.trial import Trial

CANDIDATES = 10
"""Fleets that are confirmed at most, the best first."""

ALIKE = 2
"""Of fleets that differ in settings only, at most this many are confirmed."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """best: the first whose mean share over all seeds meets the goal.  sure: the first whose 95 % interval does.

    Either is None where no candidate does; they are one and the same where a fleet as good as the best is sure.
    """

    best: Trial | None
    sure: Trial | None


def confirm(found: SearchResult, limits: Limits, stopped: Callable[[], bool] = bool) -> Confirmed:
    """Simulate the best fleets again, under fresh seeds where there are any, until one is sure.

    A recorded load has no fresh traffic: its interval is that over blocks of its own time. A fleet that is not sure is
    also tried with one more replica in each pool, in the order of the objective. stopped: whether to end with what
    there is.
    """
    bench, order = found.bench, count()
    queue = [(found.rank(trial), next(order), trial) for trial in _candidates(found)]
    heapq.heapify(queue)
    best: Trial | None = None
    for _ in range(CANDIDATES):
        if not queue or stopped():
            break
        _, _, trial = heapq.heappop(queue)
        demand = bench.demand
        seen = bench.trial(trial.fleet, (*demand.stretches, *demand.fresh)) if demand.fresh else trial
        if seen.meets(bench.goal):
            best = best or seen
            if sure(seen, bench.goal.attainment):
                return Confirmed(seen if seen.value(bench.goal) <= best.value(bench.goal) else best, seen)
        for pool in trial.fleet.pools:
            counts = tuple(each.replicas + (each is pool) for each in trial.fleet.pools)
            more = replace(trial, fleet=trial.fleet.with_replicas(counts))
            if not limits.why(more.fleet):
                heapq.heappush(queue, (found.rank(more), next(order), more))
    return Confirmed(best, None)


def _candidates(found: SearchResult) -> Iterator[Trial]:
    """The trials that hold in the search, of each fleet the best settings only."""
    seen: Counter[str] = Counter()
    for trial in sorted(found.best.values(), key=found.rank):
        seen[trial.fleet.written] += 1
        if seen[trial.fleet.written] <= ALIKE:
            yield trial


def sure(trial: Trial, attainment: float) -> bool:
    """Whether the lower end of the interval of its share meets the goal; without an interval no fleet is sure."""
    return trial.spread is not None and trial.attainment - trial.spread >= attainment
