"""Run a study: its cells in processes, found again where they were saved, and the search for the collapse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from poise.core.errors import ScenarioError
from poise.report.figures import ATTAINMENT
from poise.scenario.compare.cell import Cell, Task, simulated
from poise.scenario.compare.collapse import Collapse, collapse, probe
from poise.scenario.compare.comparison import Comparison
from poise.scenario.compare.study import Place, Study
from poise.scenario.crew import Crew
from poise.scenario.run import interrupts
from poise.scenario.warmup import check_counted, check_warmup

if TYPE_CHECKING:
    from poise.scenario.compare.store import Store
    from poise.workload import Workload

Meter = Callable[[str, int, int], None]
"""Told now and then what is running, how much of it is done and how much there is."""


def run(
    study: Study,
    *,
    jobs: int = 1,
    store: Store | None = None,
    requests: bool = False,
    draw: bool = False,
    find_collapse: bool = False,
    meter: Meter | None = None,
) -> Comparison:
    """Simulate every cell that `store` does not hold; Ctrl-C ends it with the cells that are done.

    jobs: processes; the result does not depend on them.  requests: save a row for each request beside its cell.
    draw: keep what reports draw.  find_collapse: then search for the load that each policy no longer carries.
    """
    _check(study, find_collapse)
    with interrupts() as stop, Crew(jobs, stop, simulated) as crew:
        running = _Running(study, crew, store, requests, draw, meter or _silent)
        running.comparison.sought = find_collapse
        running.fill(study.places())
        while find_collapse and not stop.is_set() and (more := _probes(running.comparison)):
            running.fill(more)
        running.comparison.interrupted = stop.is_set()
    running.comparison.collapses = _collapses(running.comparison)
    return running.comparison


def _silent(label: str, done: int, total: int) -> None:
    """Nobody wants to know."""


def _check(study: Study, find_collapse: bool) -> None:
    """ScenarioError when at the highest load everything arrives within the warm-up, or no other load can be sought."""
    load = max(study.loads)
    if find_collapse:
        study.make(study.seeds[0], 2 * load)
    check_warmup(study.make(study.seeds[0], load), study.setting.warmup_s, study.setting.until_s, load)


@dataclass(slots=True)
class _Running:
    """A study under way."""

    study: Study
    crew: Crew[Task, Cell]
    store: Store | None
    requests: bool
    draw: bool
    meter: Meter
    comparison: Comparison = field(init=False)

    def __post_init__(self) -> None:
        self.comparison = Comparison(self.study)

    def fill(self, places: Sequence[Place]) -> None:
        """Find or simulate the cells at `places`."""
        cells = self.comparison.cells
        for place in places:
            if self.store is not None and (found := self.store.find(place, requests=self.requests)):
                cells[place] = found
        left = [place for place in places if place not in cells]
        self._offer({place.load for place in places}, {place.load for place in left if place.seed == self._first})
        ended = len(places) - len(left)

        def done(cell: Cell) -> None:
            nonlocal ended
            check_counted(cell.figures["requests"], self.study.setting.warmup_s)
            if self.store is not None:
                self.store.save(cell)
            cells[cell.place] = cell
            ended += 1
            self.meter("simulations", ended, len(places))

        self.meter("simulations", ended, len(places))
        self.crew.work(self._tasks(left), done)

    def _tasks(self, places: Sequence[Place]) -> Iterator[Task]:
        """The tasks of `places`; a workload is made once for those that follow one another."""
        for (load, seed), some in groupby(places, lambda place: (place.load, place.seed)):
            workload = self._made(load, seed)
            yield from (self._task(place, workload) for place in some)

    def _task(self, place: Place, workload: Workload) -> Task:
        home = self.store.home(place) if self.store is not None else None
        return Task(
            place,
            self.study.setting,
            workload,
            self.study.policies[place.policy],
            cut=not self.study.by_seeds,
            draw=self.draw,
            timeline=self.draw and place.seed == self._first,
            requests=home / "requests.parquet" if home is not None and self.requests else None,
        )

    def _made(self, load: float, seed: int) -> Workload:
        workload, until_s = self.study.make(seed, load), self.study.setting.until_s
        if workload.endless is not None:
            if until_s is None:
                raise ScenarioError("workload: the arrivals have no end; give requests or duration_s, or `until`")
            workload = workload.endless(until_s)
        if seed == self._first and load not in self.comparison.offered:
            self._told(load, workload)
        return workload

    @property
    def _first(self) -> int:
        return self.study.seeds[0]

    def _offer(self, loads: set[float], still: set[float]) -> None:
        """Say what the requests of `loads` are, but of those whose first seed is `still` to be made."""
        for load in loads - set(self.comparison.offered):
            found = self.store.find_load(load) if self.store is not None else None
            if found is not None:
                self.comparison.offered[load] = found
            elif load not in still:
                self._made(load, self._first)

    def _told(self, load: float, workload: Workload) -> None:
        block_tokens = self.study.setting.cluster.pools[0].engine.block_tokens
        told: dict[str, Any] = {**workload.source, **workload.summary(block_tokens)}
        self.comparison.offered[load] = told
        if self.store is not None:
            self.store.save_load(load, told)


def _collapses(comparison: Comparison) -> dict[str, Collapse]:
    """What every load that was tried under each policy says, where all of its seeds are done."""
    study = comparison.study
    loads = sorted({place.load for place in comparison.cells})
    found = {}
    for name in study.policies:
        whole = [load for load in loads if len(comparison.of(name, load)) == len(study.seeds)]
        probes = [
            probe(
                load,
                comparison.interval(name, ATTAINMENT.name, load),
                comparison.growth(name, load),
                study.setting.slo,
                study.target,
            )
            for load in whole
        ]
        if known := [each for each in probes if each is not None]:
            found[name] = collapse(known)
    return found


def _probes(comparison: Comparison) -> list[Place]:
    """The cells to simulate next in search of the collapse of every policy."""
    wanted = {name: each.next_load() for name, each in _collapses(comparison).items()}
    loads = sorted({load for load in wanted.values() if load is not None})
    places = [
        Place(load, name, seed)
        for load in loads
        for seed in comparison.study.seeds
        for name, own in wanted.items()
        if own == load
    ]
    return [place for place in places if place not in comparison.cells]
