"""The search: kinds of fleet in the order of their least cost, each climbed to the first rung that holds.

A kind whose floor is dearer than what was found (by more than `NEAR`, so that the next best plans are known) is left
out; then the settings of the best fleets are varied. The best found is that of the space, as far as a replica carries
no more than `DOUBT` times its closed form and a share that meets the SLO rises with the rungs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from poise.experiment.interrupts import interrupts
from poise.experiment.progress import Meter
from poise.experiment.workers import WorkerPool, Workers, worker_pool
from poise.plan.change import LOOSER
from poise.plan.fleet import Fleet
from poise.plan.fleet_template import FleetTemplate, Same
from poise.plan.limits import Limits, value_of
from poise.plan.local_search import fewer, lower, variants
from poise.plan.size import Sized, climb
from poise.plan.space import Space, least
from poise.plan.trial import Bench, Trial

NEAR = 1.3
"""Kinds are tried up to this factor of the best found, so that the next best are known as well."""

POLISHED = 2
"""Kinds whose settings are varied: the best ones."""

BELOW = 1 - 1e-9
"""Minimum relative gain."""


@dataclass(frozen=True, slots=True)
class Job:
    """One climb, for a process. best: the least objective that is known to hold."""

    kind: FleetTemplate
    bench: Bench
    limits: Limits
    best: float = float("inf")

    def climbed(self, stopped: Callable[[], bool] = bool, held: Callable[[Trial], None] = lambda trial: None) -> Sized:
        """Climb the ladder."""
        return climb(self.kind, self.bench, self.limits.why, stopped, held, self.patience)

    def patience(self, fleet: Fleet) -> float:
        """Whether a failed fleet matters: it is better than what holds, and fails by less than `LOOSER`."""
        return LOOSER if value_of(fleet, self.bench.goal) < self.best else 1.0


@dataclass(slots=True)
class SearchResult:
    """What has been found. best: the best trial that holds, by kind.  trials: all of them.  why: why a kind has none.

    left_out: kinds whose floor was dearer.  interrupted: whether the user or the time limit ended it.
    first_s: seconds until the first fleet that holds; None where none did.
    """

    bench: Bench
    best: dict[str, Trial] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    why: dict[str, str] = field(default_factory=dict)
    left_out: int = 0
    interrupted: bool = False
    first_s: float | None = None

    def add(self, sized: Sized) -> None:
        """Add a climb."""
        self.trials += sized.trials
        if sized.best is not None:
            self.best[sized.name] = sized.best
        else:
            self.why[sized.name] = sized.why

    def settle(self, nearest: Callable[[Iterable[Trial]], Trial | None]) -> Trial | None:
        """The nearest of all trials, to its end: those that were cut are made whole as long as one is chosen."""
        while (chosen := nearest(self.trials)) is not None and chosen.cut:
            self.trials[self.trials.index(chosen)] = self.bench.whole(chosen)
        return chosen

    @property
    def winner(self) -> Trial | None:
        """The best of all kinds, None where nothing holds."""
        return min(self.best.values(), key=self.rank, default=None)

    def rank(self, trial: Trial) -> tuple[Any, ...]:
        """By the objective; then by misses in tenths of a percent, by devices, and by name: wide weights first."""
        return (
            trial.value(self.bench.goal), round(1 - trial.attainment, 3), trial.fleet.devices,
            len(trial.fleet.pools), trial.fleet.written, trial.fleet.router,
        )  # fmt: skip


def search(
    space: Space,
    bench: Bench,
    limits: Limits,
    *,
    workers: Workers | None = None,
    time_s: float | None = None,
    progress: Meter | None = None,
    better: Callable[[Trial], None] | None = None,
) -> SearchResult:
    """The search of `space`; Ctrl-C or `time_s` ends it with what there is.

    workers: where; the best does not depend on it.  better: called with each trial that is better than all before.
    """
    found, since = SearchResult(bench), time.perf_counter()
    with interrupts() as stop, ending(stop, time_s):
        with worker_pool(workers or Workers(), stop, _climbed) as hands:
            bare = replace(bench, demand=bench.demand.bare)
            _Running(space, bare, limits, found, hands, progress, better, since).run()
        found.interrupted = stop.is_set()
    return found


@contextmanager
def ending(stop: threading.Event, time_s: float | None) -> Iterator[None]:
    """Within the block `stop` is set after this many seconds; None: it is not."""
    if time_s is None:
        yield
        return
    timer = threading.Timer(max(time_s, 0.0), stop.set)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _climbed(job: Job, stopped: Callable[[], bool]) -> Sized:
    return job.climbed(stopped)


@dataclass(slots=True)
class _Running:
    """A running search."""

    space: Space
    bench: Bench
    limits: Limits
    found: SearchResult
    pool: WorkerPool[Job, Sized]
    progress: Meter | None
    better: Callable[[Trial], None] | None
    since: float
    kinds: dict[str, FleetTemplate] = field(default_factory=dict)
    ended: int = 0
    begun: int = 0
    _first: Trial | None = None

    def run(self) -> None:
        """Kinds, then the settings of the best."""
        first = next((kind for kind in self.space.kinds if isinstance(kind, Same)), None)
        if first is not None:  # at once and in this process: an answer to begin with, of a kind that is quickly tried
            job = next(self._errands([first], NEAR))
            self._done(job.climbed(held=self._held))
        self._work([kind for kind in self.space.kinds if kind is not first], NEAR)
        self._work(self.space.later(), NEAR)
        ranked = sorted(self.found.best, key=lambda name: self.found.rank(self.found.best[name]))
        for name in ranked[:POLISHED]:
            kind, best = self.kinds[name], self.found.best[name]
            self.found.settle(lower(kind, best))
            self._work(variants(kind, best, self.found.trials, self.bench.demand), 1.0)
        if (winner := self.found.winner) is not None:
            self._work(fewer(winner.fleet), BELOW)

    def _work(self, kinds: Iterable[FleetTemplate], near: float) -> None:
        self.pool.work(self._errands(kinds, near), self._done)

    def _errands(self, kinds: Iterable[FleetTemplate], near: float) -> Iterator[Job]:
        """Climbs that are still worthwhile when they are started."""
        goal, demand = self.bench.goal, self.bench.demand
        for kind in kinds:
            best = self._least()
            most = best * near
            if least(kind, demand, goal) > most:
                self.found.left_out += 1
                continue
            self.kinds[kind.name] = kind
            self.begun += 1
            yield Job(kind, self.bench, replace(self.limits, most=most), best)

    def _least(self) -> float:
        winner = self.found.winner
        return float("inf") if winner is None else winner.value(self.bench.goal)

    def _held(self, trial: Trial) -> None:
        """Report a first fleet that holds, while its ladder is still climbed."""
        if self._first is None:
            self._first, self.found.first_s = trial, time.perf_counter() - self.since
            if self.better is not None:
                self.better(trial)

    def _done(self, sized: Sized) -> None:
        before = self.found.winner
        self.found.add(sized)
        self.ended += 1
        now = self.found.winner
        if now is not None and self.found.first_s is None:
            self.found.first_s = time.perf_counter() - self.since
        if self.better is not None and now is not None and now is not before and now is not self._first:
            self.better(now)
        if self.progress is not None:
            self.progress("kinds of fleet", self.ended, max(self.begun, self.ended))
