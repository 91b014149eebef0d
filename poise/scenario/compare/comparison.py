"""What a comparison came to: figures with intervals for each policy and load, and who is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from poise.core.errors import UserError
from poise.report.blocks import Blocks
from poise.report.bootstrap import TOO_SHORT, Floats, Path, Sample, Spread, average, interval, minus, settle
from poise.report.figures import KEY, SERIES, Figure, deciding
from poise.report.intervals import Interval, over_seeds
from poise.report.seeds import CONFIDENCE
from poise.report.verdict import Verdict, judge
from poise.scenario.compare.cell import Cell
from poise.scenario.compare.study import Place, Study
from poise.scenario.outcome import told

if TYPE_CHECKING:
    from poise.report.figures import Case
    from poise.scenario.compare.collapse import Collapse

NO_TIME = "the requests all begin at one instant, so there is no time to cut into blocks"
ALIKE = "the seeds changed nothing, so they say nothing about chance"


@dataclass(slots=True)
class Comparison:
    """The cells of a study that are done, and the requests of each load.

    offered: for each load the summary of its first seed's requests (`Workload.summary`) with their source.
    collapses: for each policy, up to which load it carries the traffic.  interrupted: the user stopped it.
    """

    study: Study
    cells: dict[Place, Cell] = field(default_factory=dict)
    offered: dict[float, dict[str, Any]] = field(default_factory=dict)
    collapses: dict[str, Collapse] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    interrupted: bool = False
    _results: dict[tuple[str, float], dict[str, Any]] = field(default_factory=dict, repr=False)

    def policies(self, load: float) -> list[str]:
        """The policies that have a cell at a load."""
        return [name for name in self.study.policies if self.of(name, load)]

    def of(self, policy: str, load: float) -> list[Cell]:
        """The cells of a policy at a load, by seed."""
        found = (self.cells.get(Place(load, policy, seed)) for seed in self.study.seeds)
        return [cell for cell in found if cell is not None]

    def result(self, policy: str, load: float) -> dict[str, Any]:
        """Means over seeds with `interval`, `notes` and `per_seed`, as of `poise simulate`; {} without cells."""
        cells = self.of(policy, load)
        if not cells:
            return {}
        if (policy, load) not in self._results:
            self._results[policy, load] = self._told(policy, load, cells)
        return self._results[policy, load]

    def growth(self, policy: str, load: float) -> float | None:
        """By which share of the arrivals the backlog grows, the mean over seeds (see `backlog_growth`)."""
        return _mean([cell.growth for cell in self.of(policy, load)])

    def _told(self, policy: str, load: float, cells: list[Cell]) -> dict[str, Any]:
        result = told([cell.figures for cell in cells], [cell.refusals for cell in cells])
        result["backlog_growth"] = self.growth(policy, load)
        result["per_seed"] = [
            {**cell.figures, "seed": cell.place.seed, "backlog_growth": cell.growth} for cell in cells
        ]
        if not self.study.by_seeds:
            result["interval"], why = self._over_time(policy, load, result)
            result["notes"] = {name: said for name, said in result["notes"].items() if name != "interval"} | why
        if len(cells) < len(self.study.seeds):
            result["notes"]["partial"] = f"{len(cells)} of {len(self.study.seeds)} seeds are done"
        return result

    def _over_time(self, policy: str, load: float, result: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
        """Half-widths from blocks of time in the shape of the figures, and which figures have none."""
        if self._blocks(policy, load) is None:
            return None, {"interval": NO_TIME}
        halves: dict[str, Any] = {}
        lacking = []
        spreads: dict[Path, Spread | None] = {}
        for family in ("", *(series[0].path[0] for series in SERIES.values())):
            spreads |= self._spreads(policy, load, family)
        for figure in (*KEY, *(each for series in SERIES.values() for each in series)):
            if figure.path in spreads and (value := figure.value(result)) is not None:
                found = interval(value, spreads[figure.path])
                home = halves if len(figure.path) == 1 else halves.setdefault(figure.path[0], {})
                home[figure.path[-1]] = found.half
                lacking += [figure.label] if found.half is None else []
        return halves, {"interval": f"{TOO_SHORT}: {', '.join(lacking)}"} if lacking else {}

    # Intervals --------------------------------------------------------------------------------------------------------

    def interval(
        self, policy: str, figure: str, load: float = 1.0, *, against: str | None = None, confidence: float = CONFIDENCE
    ) -> Interval:
        """A figure of a policy, as in ttft_s.p99, with its interval; or how much more it has than `against` has.

        Differences are paired: by seed where the load is generated, else by block of time. UserError for unknown names.
        """
        asked = deciding(figure)
        for name in (policy, against):
            if name is not None and not self.of(name, load):
                loads = ", ".join(f"{each:g}" for each in self.study.loads)
                known = f"give one of {', '.join(self.study.policies)} and one of {loads}"
                raise UserError(f"there is no result of {name!r} at load {load:g}; {known}")
        if against is None:
            return self._single(policy, load, asked, confidence)
        return self._paired(against, policy, load, asked, confidence)

    def _single(self, policy: str, load: float, figure: Figure, confidence: float) -> Interval:
        cells = self.of(policy, load)
        if self.study.by_seeds:
            found = over_seeds([figure.value(cell.figures) for cell in cells], confidence)
            return Interval(found.value, None, ALIKE) if _alike(cells) else found
        value = _mean([figure.value(cell.figures) for cell in cells])
        if self._blocks(policy, load) is None:
            return Interval(value, None, NO_TIME)
        return interval(value, self._spreads(policy, load, _family(figure)).get(figure.path), confidence)

    def _paired(self, base: str, other: str, load: float, figure: Figure, confidence: float) -> Interval:
        """How much more `other` has than `base`."""
        if self.study.by_seeds:
            return self._by_seed(base, other, load, figure, confidence)
        values = [_mean([figure.value(cell.figures) for cell in self.of(name, load)]) for name in (base, other)]
        if values[0] is None or values[1] is None:
            return Interval(None, None, "one of them has no such figure")
        gap, blocks = values[1] - values[0], self._blocks(base, load)
        if blocks is None:
            return Interval(gap, None, NO_TIME)
        family = _family(figure)

        def differences(weights: Floats) -> dict[Path, Sample]:
            one, two = (self._samples(name, load, family, weights) for name in (base, other))
            return {path: minus(two[path], one[path]) for path in (figure.path,) if path in one and path in two}

        return interval(gap, settle(differences, blocks[0].bins).get(figure.path), confidence)

    def _by_seed(self, base: str, other: str, load: float, figure: Figure, confidence: float) -> Interval:
        pairs = {cell.place.seed: cell for cell in self.of(base, load)}
        both = [(pairs[cell.place.seed], cell) for cell in self.of(other, load) if cell.place.seed in pairs]
        gaps: list[float | None] = []
        for one, two in both:
            before, after = figure.value(one.figures), figure.value(two.figures)
            gaps.append(None if before is None or after is None else after - before)
        found = over_seeds(gaps, confidence)
        alike = _alike([one for one, _ in both]) and _alike([two for _, two in both])
        return Interval(found.value, None, ALIKE) if alike else found

    def _blocks(self, policy: str, load: float) -> list[Blocks] | None:
        """The runs of a policy at a load, cut into the same bins; None where they were not."""
        found = [cell.blocks() for cell in self.of(policy, load)]
        known = [blocks for blocks in found if blocks is not None]
        return known if known and len(known) == len(found) and len({each.bins for each in known}) == 1 else None

    def _samples(self, policy: str, load: float, family: str, weights: Floats) -> dict[Path, Sample]:
        """Figures under resamples of time, the same for all seeds: the mean over these."""
        runs = [
            blocks.resample(family, cell.figures, weights)
            for cell in self.of(policy, load)
            if (blocks := cell.blocks()) is not None
        ]
        common = [path for path in runs[0] if all(path in run for run in runs)]
        return {path: average([run[path] for run in runs]) for path in common}

    def _spreads(self, policy: str, load: float, family: str) -> dict[Path, Spread | None]:
        """How far time may have moved the figures of a family."""
        blocks = self._blocks(policy, load)
        assert blocks is not None
        return settle(partial(self._samples, policy, load, family), blocks[0].bins)

    # Who is better ----------------------------------------------------------------------------------------------------

    def best(self, load: float = 1.0, by: str | None = None) -> Verdict:
        """Which policy is the best at a load by a figure (default: the study's), and which cannot be told from it."""
        figure = self.study.by if by is None else deciding(by)
        names = self.policies(load)
        values = {name: _mean([figure.value(cell.figures) for cell in self.of(name, load)]) for name in names}
        return judge(
            figure, values, lambda base, other, confidence: self._paired(base, other, load, figure, confidence)
        )

    def table(self, load: float | None = None) -> str:
        """The table of a load, or those of all loads, as text."""
        from poise.scenario.compare.show import tables

        return tables(self, None if load is None else [load])

    def __str__(self) -> str:
        return self.table()

    @property
    def complete(self) -> bool:
        """Whether every cell of the study is there."""
        return all(place in self.cells for place in self.study.places())

    def as_dict(self) -> dict[str, Any]:
        """The result JSON of `poise compare`."""
        return {
            "by": self.study.by.name,
            "complete": self.complete,
            "interrupted": self.interrupted,
            "loads": [self._at(load) for load in self.study.loads if self.policies(load)],
            "collapse": {name: each.as_dict() for name, each in self.collapses.items()},
            "provenance": self.provenance,
        }

    def _at(self, load: float) -> dict[str, Any]:
        from poise.scenario.write import rate_of

        return {
            "load": load,
            "rate": rate_of(self.offered[load]),
            "workload": self.offered[load],
            "policies": {name: self.result(name, load) for name in self.policies(load)},
            "verdict": self.best(load).as_dict(),
        }

    def cases(self) -> list[Case]:
        """The results as reports take them, with curves of the first seed; by rate, or by load where none has one."""
        from poise.report.figures import Case
        from poise.scenario.write import rate_of

        loads = {load: rate_of(self.offered[load]) for load in self.study.loads if self.policies(load)}
        rates = all(rate is not None for rate in loads.values())
        told = []
        for load, rate in loads.items():
            for name in self.policies(load):
                first = self.of(name, load)[0]
                drawn = first.curves("latency"), first.curves("timeline")
                told.append(Case(name, self.result(name, load), rate if rates else load, *drawn))
        return told


def _family(figure: Figure) -> str:
    """Under which name of `Blocks.families` a figure is."""
    return figure.path[0] if len(figure.path) > 1 else ""


def _alike(cells: list[Cell]) -> bool:
    """Whether two or more seeds came to the very same figures."""
    return len(cells) > 1 and all(cell.figures == cells[0].figures for cell in cells)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
