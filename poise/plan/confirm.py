"""Confirms the final plan: the best found fleet that also holds on traffic not used in the search.

Seeds are added until the interval of the share lies on one side of the goal (`report.looks`), or there are no more.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from poise.experiment.progress import Meter
from poise.experiment.workers import WorkerPool, Workers, worker_pool
from poise.plan.fleet import Fleet
from poise.plan.limits import Limits
from poise.plan.search import SearchResult
from poise.plan.trial import Bench, SeedTrial, Trial, joined
from poise.report.looks import FIRST, looks, times
from poise.workload import Workload

CANDIDATES = 10
"""Fleets that are confirmed at most, the best first."""

ALIKE = 2
"""Of fleets that differ in settings only, at most this many are confirmed."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """best: the first whose means over its seeds meet the goal.  sure: the first that does beyond chance.

    Either is None where no candidate does; they are one and the same where a fleet as good as the best is sure.
    times: how many times as much traffic would decide whether the best holds, None where it is sure, or none would.
    """

    best: Trial | None
    sure: Trial | None
    times: float | None = None


def confirm(
    found: SearchResult,
    limits: Limits,
    most: int = 30,
    workers: Workers | None = None,
    stop: threading.Event | None = None,
    progress: Meter | None = None,
) -> Confirmed:
    """Simulate the best fleets again under fresh traffic, until one is sure.

    most: seeds of a fleet.  workers: where; the result does not depend on it.  stop: set to end with what there is.
    A trace too short to have other stretches has no fresh traffic: its interval is that over blocks of its own time.
    A recorded load is planned for as it was: its other stretches make a fleet sure, and do not refute it.
    A fleet that is not sure is also tried with one more replica in each pool, in the order of the objective.
    """
    stop = stop or threading.Event()
    with worker_pool(workers or Workers(), stop, _seed_trial) as hands:
        return _confirmed(found, limits, SeedRuns(found.bench, hands, stop.is_set, most, progress))


@dataclass(frozen=True, slots=True)
class SeedTask:
    """One fleet under one seed."""

    bench: Bench
    fleet: Fleet
    workload: Workload
    seed: int


def _seed_trial(task: SeedTask, stopped: Callable[[], bool]) -> tuple[int, SeedTrial] | None:
    return None if stopped() else (task.seed, task.bench.seed_trial(task.fleet, task.workload, task.seed))


@dataclass(frozen=True, slots=True)
class SeedRuns:
    """Simulates fleets under fresh traffic, seed by seed."""

    bench: Bench
    pool: WorkerPool[SeedTask, tuple[int, SeedTrial]]
    stopped: Callable[[], bool]
    most: int
    progress: Meter | None

    def trial(self, fleet: Fleet) -> Trial | None:
        """The trial at the look that decides, or at the last one; None where there is none yet.

        A share that does not meet the goal ends it after twice the seeds of the first look.
        """
        fresh, bench = self.bench.demand.fresh, replace(self.bench, demand=self.bench.demand.bare)
        if fresh is None:
            return None if self.stopped() else self.bench.trial(fleet)
        most = self.most if fresh.most is None else min(self.most, fresh.most)
        seen: dict[int, SeedTrial] = {}
        trial = None
        for look in looks(most):
            more = range(fresh.first + len(seen), fresh.first + look.seeds)
            tasks = (SeedTask(bench, fleet, fresh.make(seed - fresh.first), seed) for seed in more)
            self.pool.work(tasks, lambda done: self._add(seen, done, most))
            if len(seen) < look.seeds:
                return trial
            trial = bench.judged(joined([seen[seed] for seed in sorted(seen)], look.confidence))
            if trial.side(bench.goal) or (look.seeds > FIRST and not trial.meets(bench.goal)):
                break
        return trial

    def _add(self, seen: dict[int, SeedTrial], done: tuple[int, SeedTrial], most: int) -> None:
        seen[done[0]] = done[1]
        if self.progress is not None:
            self.progress("seeds of a fleet", len(seen), most)


def _confirmed(found: SearchResult, limits: Limits, runs: SeedRuns) -> Confirmed:
    """The first candidate that meets the goal, and the first that is sure to."""
    bench, order = found.bench, count()
    queue = [(found.rank(trial), next(order), trial) for trial in _candidates(found)]
    heapq.heapify(queue)
    best: Trial | None = None
    for _ in range(CANDIDATES):
        if not queue or runs.stopped():
            break
        _, _, trial = heapq.heappop(queue)
        seen = runs.trial(trial.fleet)
        if bench.demand.recorded and best is None:
            best = seen if seen is not None and seen.meets(bench.goal) else trial
        if seen is not None and seen.meets(bench.goal):
            best = best or seen
            if seen.sure(bench.goal):
                cheaper = best.value(bench.goal) < seen.value(bench.goal)
                return Confirmed(best, seen, _times(best, bench)) if cheaper else Confirmed(seen, seen)
        for pool in trial.fleet.pools:
            counts = tuple(each.replicas + (each is pool) for each in trial.fleet.pools)
            more = replace(trial, fleet=trial.fleet.with_replicas(counts))
            if not limits.why(more.fleet):
                heapq.heappush(queue, (found.rank(more), next(order), more))
    return Confirmed(best, None, None if best is None else _times(best, bench))


def _times(best: Trial, bench: Bench) -> float | None:
    return None if best.spread is None else times(best.attainment, best.spread, bench.goal.attainment)


def _candidates(found: SearchResult) -> Iterator[Trial]:
    """The trials that hold in the search, of each fleet the best settings only."""
    seen: Counter[str] = Counter()
    for trial in sorted(found.best.values(), key=found.rank):
        seen[trial.fleet.written] += 1
        if seen[trial.fleet.written] <= ALIKE:
            yield trial
