"""Compare cases of any world that is a function of a case and a seed to named figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from poise.core.errors import UserError
from poise.core.plugin import nearest
from poise.experiment.case import Case, Cell, Place, Run
from poise.experiment.comparison import Compared
from poise.experiment.intervals import exact, exact_gap, paired, single
from poise.experiment.progress import Meter
from poise.experiment.run import Shard, run
from poise.experiment.search import Threshold, Tried, next_keys, tried
from poise.experiment.store import Store
from poise.experiment.workers import Do, Workers
from poise.report.figures import Figure
from poise.report.intervals import Interval
from poise.report.verdict import Length

Holds = Callable[["Comparison", str, float], Tried | None]
"""Whether a case holds at a setting; None where that cannot be known."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """Cases × settings × seeds. run: the world, a function of a module where several processes are to do it.

    figures: those of a run that can decide.  by: the one that decides.  axis: the parameter that a setting sets.
    chance: whether seeds change anything; without it one seed is enough.
    """

    cases: tuple[Case, ...]
    run: Run
    figures: tuple[Figure, ...]
    by: Figure
    settings: tuple[float, ...] = (1.0,)
    seeds: tuple[int, ...] = (0,)
    axis: str = "setting"
    chance: bool = True

    @property
    def names(self) -> list[str]:
        """The cases, by label."""
        return [case.label for case in self.cases]

    @property
    def at(self) -> tuple[float, ...]:
        """The settings."""
        return self.settings

    def figure(self, name: str) -> Figure:
        """The figure of a name; UserError with the nearest names where there is none by which cases can be compared."""
        known = {figure.name: figure for figure in self.figures if figure.better}
        if name in known:
            return known[name]
        hint = nearest(name, known, "known are")
        raise UserError(f"{name!r} is not a figure by which these can be compared; {hint}")

    def places(self) -> list[Place]:
        """All cells, setting by setting, those that share a seed one after the other."""
        return [Place(at, name, seed) for at in self.settings for seed in self.seeds for name in self.names]

    def case(self, label: str, at: float) -> Case:
        """A case at a setting."""
        (found,) = (case for case in self.cases if case.label == label)
        return Case(label, {**found.parameters, self.axis: at})


@dataclass(slots=True)
class Comparison(Compared[Experiment, Cell]):
    """The result of an experiment. thresholds: for each case up to which setting it holds, where that was searched."""

    thresholds: dict[str, Threshold[Tried]] = field(default_factory=dict)
    interrupted: bool = False

    def single(self, cells: list[Cell], figure: Figure, confidence: float) -> Interval:
        """A figure, with the interval that seeds give it; one without chance is exact."""
        return single(cells, figure, confidence) if self.study.chance else exact(cells, figure)

    def paired(self, base: list[Cell], other: list[Cell], figure: Figure, confidence: float) -> Interval:
        """A difference, paired by seed; one without chance is exact."""
        return paired(base, other, figure, confidence) if self.study.chance else exact_gap(base, other, figure)

    def length(self, cells: list[Cell]) -> Length | None:
        """The seeds."""
        return Length(len(cells), len(self.study.seeds)) if self.study.chance else None


@dataclass(frozen=True, slots=True)
class Task:
    """One run."""

    place: Place
    case: Case
    run: Run


def done(task: Task, stopped: Callable[[], bool]) -> Cell | None:
    """Do one run; None when `stopped` asks for an end before."""
    if stopped():
        return None
    began = time.perf_counter()
    figures = task.run(task.case, task.place.seed)
    return Cell(task.place, figures, time.perf_counter() - began)


@dataclass(slots=True)
class _World:
    """An experiment in the form that `run` takes."""

    comparison: Comparison
    store: Store | None
    holds: Holds | None

    @property
    def do(self) -> Do[Task, Cell]:
        return done

    @property
    def cells(self) -> Mapping[Place, Cell]:
        return self.comparison.cells

    def keys(self) -> list[Place]:
        return self.comparison.study.places()

    def seek(self, keys: Sequence[Place]) -> None:
        for place in keys:
            if self.store is not None and (kept := self.store.read(place)) is not None:
                self.comparison.cells[place] = Cell(place, kept.fields["figures"], kept.fields["wall_s"])

    def tasks(self, keys: Sequence[Place], left: Sequence[Place]) -> Iterator[Task]:
        study = self.comparison.study
        for place in left:
            yield Task(place, study.case(place.case, place.at), study.run)

    def keep(self, cell: Cell) -> Place:
        place = Place(*cell.place)
        if self.store is not None:
            self.store.write(place, {**place._asdict(), "wall_s": cell.wall_s, "figures": dict(cell.figures)})
        self.comparison.cells[place] = cell
        return place

    def more(self) -> list[Place]:
        if self.holds is None:
            return []
        self.comparison.thresholds = thresholds(self.comparison, self.holds)
        return [Place(*key) for key in next_keys(self.comparison, self.comparison.thresholds)]


def thresholds(comparison: Comparison, holds: Holds) -> dict[str, Threshold[Tried]]:
    """Up to which setting each case holds, as far as is known."""
    found = tried(comparison, lambda case, at: holds(comparison, case, at))
    return {case: Threshold(probes) for case, probes in found.items()}


def compare(
    experiment: Experiment,
    *,
    workers: Workers | None = None,
    shard: Shard | None = None,
    store: Store | None = None,
    holds: Holds | None = None,
    progress: Meter | None = None,
) -> Comparison:
    """Run every cell that `store` does not hold; Ctrl-C ends it with the cells that are done.

    workers: where; the result does not depend on it.  shard: only that part of the grid.
    holds: then search for the setting up to which each case holds.
    """
    comparison = Comparison(experiment)
    world = _World(comparison, store, holds)
    comparison.interrupted = run(world, workers=workers, shard=shard, progress=progress)
    return comparison
