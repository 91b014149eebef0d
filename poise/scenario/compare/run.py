"""Runs a study: its cells in processes, reusing stored ones, and the search for the collapse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from poise.core.errors import ScenarioError
from poise.experiment.progress import Meter
from poise.experiment.run import Shard
from poise.experiment.run import run as run_world
from poise.experiment.search import next_keys, tried
from poise.experiment.workers import Do, Workers
from poise.report.figures import ATTAINMENT
from poise.scenario.compare.cell import Cell, Task, simulated
from poise.scenario.compare.collapse import Collapse, Probe, collapse, probe
from poise.scenario.compare.comparison import Comparison
from poise.scenario.compare.study import Place, Study
from poise.scenario.warmup import check_counted, check_warmup

if TYPE_CHECKING:
    from poise.scenario.compare.store import Store
    from poise.workload import Workload


def run(
    study: Study,
    *,
    workers: Workers | None = None,
    shard: Shard | None = None,
    store: Store | None = None,
    requests: bool = False,
    draw: bool = False,
    find_collapse: bool = False,
    progress: Meter | None = None,
) -> Comparison:
    """Simulate every cell that `store` does not hold; Ctrl-C ends it with the cells that are done.

    workers: where; the result does not depend on them.  shard: only that part of the cells.
    requests: save a row for each request with its cell.  draw: keep the charts' data.
    find_collapse: then search for the load that each policy no longer carries.
    """
    _check(study, find_collapse)
    serving = _Serving(Comparison(study, sought=find_collapse), store, requests, draw)
    found = serving.comparison
    found.interrupted = run_world(serving, workers=workers, shard=shard, progress=progress)
    found.collapses = _collapses(found)
    return found


def _check(study: Study, find_collapse: bool) -> None:
    """ScenarioError when at the highest load all requests arrive within the warm-up, or no other load is possible."""
    load = max(study.loads)
    if find_collapse:
        study.make(study.seeds[0], 2 * load)
    check_warmup(study.make(study.seeds[0], load), study.setting.warmup_s, study.setting.until_s, load)


@dataclass(slots=True)
class _Serving:
    """A study as a world of the experiment."""

    comparison: Comparison
    store: Store | None
    requests: bool
    draw: bool

    @property
    def do(self) -> Do[Task, Cell]:
        return simulated

    @property
    def study(self) -> Study:
        return self.comparison.study

    @property
    def cells(self) -> dict[Place, Cell]:
        return self.comparison.cells

    def keys(self) -> list[Place]:
        return self.study.places()

    def seek(self, keys: Sequence[Place]) -> None:
        for place in keys:
            if self.store is not None and (found := self.store.find(place, requests=self.requests)):
                self.cells[place] = found

    def tasks(self, keys: Sequence[Place], left: Sequence[Place]) -> Iterator[Task]:
        """The tasks of `left`; a workload is made once for those that follow one another."""
        self._offer({place.load for place in keys}, {place.load for place in left if place.seed == self._first})
        return self._tasks(left)

    def keep(self, cell: Cell) -> Place:
        check_counted(cell.figures["requests"], self.study.setting.warmup_s)
        if self.store is not None:
            self.store.save(cell)
        self.cells[cell.place] = replace(cell, rows=None)
        return cell.place

    def more(self) -> list[Place]:
        if not self.comparison.sought:
            return []
        return [Place(*key) for key in next_keys(self.comparison, _collapses(self.comparison))]

    def _tasks(self, places: Sequence[Place]) -> Iterator[Task]:
        for (load, seed), some in groupby(places, lambda place: (place.load, place.seed)):
            workload = self._made(load, seed)
            yield from (self._task(place, workload) for place in some)

    def _task(self, place: Place, workload: Workload) -> Task:
        return Task(
            place,
            self.study.setting,
            workload,
            self.study.policies[place.policy],
            cut=not self.study.by_seeds,
            draw=self.draw,
            timeline=self.draw and place.seed == self._first,
            rows=self.requests and self.store is not None,
        )

    def _made(self, load: float, seed: int) -> Workload:
        workload, until_s = self.study.make(seed, load), self.study.setting.until_s
        if workload.endless is not None:
            if until_s is None:
                raise ScenarioError("workload: the arrivals have no end; give requests or duration_s, or `until`")
            workload = workload.endless(until_s)
        if seed == self._first and load not in self.comparison.offered:
            self._note(load, workload)
        return workload

    @property
    def _first(self) -> int:
        return self.study.seeds[0]

    def _offer(self, loads: set[float], still: set[float]) -> None:
        """Note the requests of `loads`, except of those whose first seed is `still` to be made."""
        for load in loads - set(self.comparison.offered):
            found = self.store.notes(load) if self.store is not None else None
            if found is not None:
                self.comparison.offered[load] = found
            elif load not in still:
                self._made(load, self._first)

    def _note(self, load: float, workload: Workload) -> None:
        block_tokens = self.study.setting.cluster.pools[0].engine.block_tokens
        fields: dict[str, Any] = {**workload.source, **workload.summary(block_tokens)}
        self.comparison.offered[load] = fields
        if self.store is not None:
            self.store.write_notes(load, fields)


def _collapses(comparison: Comparison) -> dict[str, Collapse]:
    """The results of every load that was tried under each policy, where all of its seeds are done."""
    study = comparison.study

    def judged(policy: str, load: float) -> Probe | None:
        met, growth = comparison.interval(policy, ATTAINMENT.name, load), comparison.growth(policy, load)
        return probe(load, met, growth, study.setting.slo, study.target)

    return {policy: collapse(probes) for policy, probes in tried(comparison, judged).items()}
