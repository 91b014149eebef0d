"""The results of a comparison: figures with intervals for each policy and load, and which policy is better."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from poise.core.errors import UserError
from poise.experiment.comparison import Compared
from poise.experiment.intervals import mean
from poise.report.answer import Basis, decide
from poise.report.figures import Figure
from poise.report.intervals import Interval, over_seeds
from poise.report.verdict import Length
from poise.scenario.compare.cell import Cell
from poise.scenario.compare.rows import Point, curve, rows
from poise.scenario.compare.study import Study
from poise.scenario.compare.uncertainty import over_time, paired, shares_over_seeds, single
from poise.scenario.identity import blind, note
from poise.scenario.outcome import merged

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure as Drawn
    from polars import DataFrame

    from poise.report.figures import Case, Curve
    from poise.scenario.compare.collapse import Collapse
    from poise.scenario.model_error import ModelError


@dataclass(slots=True)
class Comparison(Compared[Study, Cell]):
    """The finished cells of a study, and the requests of each load.

    offered: for each load the summary of its first seed's requests (`Workload.summary`) with their source.
    collapses: for each policy, up to which load it carries the traffic.  sought: whether that load was searched for.
    interrupted: the user stopped it.
    """

    AXIS = "load"

    offered: dict[float, dict[str, Any]] = field(default_factory=dict)
    collapses: dict[str, Collapse] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    sought: bool = False
    interrupted: bool = False
    _results: dict[tuple[str, float], dict[str, Any]] = field(default_factory=dict, repr=False)

    def policies(self, load: float) -> list[str]:
        """The policies that have a cell at a load."""
        return self.named(load)

    @property
    def blind(self) -> dict[str, str]:
        """The policies that match prefixes where the requests have none, and what they use instead."""
        return blind(self.study.policies, next(iter(self.offered.values()), {}))

    def result(self, policy: str, load: float) -> dict[str, Any]:
        """Means over seeds with `interval`, `notes` and `per_seed`, as of `poise simulate`; {} without cells."""
        cells = self.of(policy, load)
        if not cells:
            return {}
        if (policy, load) not in self._results:
            self._results[policy, load] = self._result(policy, load, cells)
        return self._results[policy, load]

    def growth(self, policy: str, load: float = 1.0) -> Interval:
        """The share of the arrivals by which the backlog grows (see `backlog_growth`); seeds give it an interval, or,
        where there is one recording, the chance within its run.
        """
        cells = self.of(policy, load)
        growths = [cell.growth for cell in cells]
        if self.study.by_seeds:
            return over_seeds(growths)
        halves = [cell.growth_half for cell in cells if cell.growth_half is not None]
        return Interval(mean(growths), max(halves, default=None))

    def _result(self, policy: str, load: float, cells: list[Cell]) -> dict[str, Any]:
        result = merged([cell.figures for cell in cells], [cell.refusals for cell in cells])
        result["backlog_growth"] = self.growth(policy, load).value
        result["per_seed"] = [
            {**cell.figures, "seed": cell.place.seed, "backlog_growth": cell.growth} for cell in cells
        ]
        if self.study.by_seeds:
            shares_over_seeds(cells, result["interval"])
        else:
            result["interval"], why = over_time(cells, result)
            result["notes"] = {name: text for name, text in result["notes"].items() if name != "interval"} | why
        if instead := self.blind.get(policy):
            result["notes"]["prefix_hit_rate"] = note(instead)
        if len(cells) < len(self.study.seeds):
            result["notes"]["partial"] = f"{len(cells)} of {len(self.study.seeds)} seeds are done"
        return result

    def answer(self, *, own: bool = True) -> str:
        """Which policy to take, by how much, with how much headroom and on how many devices, or what would decide.

        own: whether load 1 is the traffic as it is now. Empty where there is nothing to choose.
        """
        pools = self.study.setting.cluster.pools
        alike = len(pools) == 1 and pools[0].slots == pools[0].replicas
        return decide(
            Basis(
                self.study.names,
                {load: self.best(load) for load in self.study.loads if self.policies(load)},
                {name: each.carries for name, each in self.collapses.items()},
                pools[0].replicas if alike else 0,
                pools[0].devices,
                pools[0].device.name,
                own,
            )
        )

    # Chance -----------------------------------------------------------------------------------------------------------

    def single(self, cells: list[Cell], figure: Figure, confidence: float) -> Interval:
        """A figure with its interval: of the seeds where the load is generated, else of blocks of time."""
        return single(cells, figure, self.study.by_seeds, confidence)

    def paired(self, base: list[Cell], other: list[Cell], figure: Figure, confidence: float) -> Interval:
        """A difference, paired by seed where the load is generated, else by block of time."""
        return paired(base, other, figure, self.study.by_seeds, confidence)

    def length(self, cells: list[Cell]) -> Length:
        """The requests of the longest run, and the seeds."""
        requests = max((int(cell.figures["requests"]) for cell in cells), default=0)
        return Length(requests, len(self.study.seeds), self.study.recorded)

    def table(self, load: float | None = None) -> str:
        """The table of a load, or those of all loads, as text."""
        from poise.scenario.compare.show import tables

        return tables(self, None if load is None else [load])

    def __str__(self) -> str:
        return self.table()

    # Data -------------------------------------------------------------------------------------------------------------

    def curve(self, policy: str, figure: str) -> list[Point]:
        """A figure of a policy, as in ttft_s.p99, over load: (load, rate, value, low, high) with its 95 % interval."""
        return curve(self, policy, figure)

    def records(self, *, each_seed: bool = False) -> list[dict[str, Any]]:
        """A plain row for each load and policy, or for each seed of them (see `rows`)."""
        return rows(self, each_seed=each_seed)

    def frame(self, *, each_seed: bool = False) -> DataFrame:
        """The same as a polars data frame."""
        import polars as pl

        return pl.DataFrame(self.records(each_seed=each_seed), infer_schema_length=None)

    def to_pandas(self, *, each_seed: bool = False) -> pandas.DataFrame:
        """The same as a pandas data frame; UserError without pandas, the extra `pandas`."""
        from poise.report.optional import to_pandas

        return to_pandas(self.frame(each_seed=each_seed))

    def plot(self, *figures: str) -> Drawn:
        """Figures over load with their intervals, as in plot("ttft_s.p99"); by default the six of the report.

        A matplotlib figure; UserError without it, the extra `plot`, and for unknown names.
        """
        from poise.report.drawings import SWEPT
        from poise.report.optional import needed

        needed("matplotlib", "plot", "Comparison.plot")
        from poise.report.plots import drawing, over_load

        chosen = [self.study.figure(name) for name in figures] or [figure for figure, _ in SWEPT]
        rate = self.rate(1.0) if 1.0 in self.offered else None
        return drawing(
            [
                over_load(
                    figure, {name: self.curve(name, figure.name) for name in self.study.names}, rate, self.study.target
                )
                for figure in chosen
            ]
        )

    def __repr__(self) -> str:
        study = self.study
        size = f"{len(study.names)} policies × {len(study.loads)} loads × {len(study.seeds)} seeds, by {study.by.label}"
        done = "" if self.complete else f", {len(self.cells)} simulations done"
        return f"<Comparison: {size}{done}>"

    def _repr_html_(self) -> str:
        """The answer, a table and the curves over load."""
        from poise.scenario.compare.show import card

        return card(self)

    def latencies(self, policy: str, load: float = 1.0) -> dict[str, Curve]:
        """The distributions of `ttft_s`, `tpot_s` and `e2e_s` in the first seed: sorted seconds, and shares up to each.

        UserError where curves were not kept.
        """
        return self._drawn(policy, load, "latency")

    def timelines(self, policy: str, load: float = 1.0) -> dict[str, dict[str, Curve]]:
        """`waiting`, `running` and `kv` (share of blocks) by replica in the first seed: seconds, and a value at each.

        UserError where curves were not kept.
        """
        return self._drawn(policy, load, "timeline")

    def _drawn(self, policy: str, load: float, kind: str) -> dict[str, Any]:
        if found := self.known(policy, load)[0].curves(kind):
            return found
        raise UserError(f"no curves of {policy} at load {load:g} were kept; give draw=True")

    def rate(self, load: float) -> float | None:
        """The requests per second of a load; None where it has no rate."""
        from poise.scenario.write import rate_of

        return rate_of(self.offered[load])

    @property
    def model_error(self) -> ModelError:
        """How far measured figures may be from the simulated ones, whatever the policy."""
        from poise.cost import Roofline
        from poise.scenario.model_error import model_error

        setting = self.study.setting
        closed = any("at once" in load for load in self.offered.values())
        return model_error(setting.cost or Roofline(), setting.cluster.pools, closed)

    def as_dict(self) -> dict[str, Any]:
        """The result JSON of `poise compare`."""
        return {
            "answer": self.answer(),
            "by": self.study.by.name,
            "complete": self.complete,
            "interrupted": self.interrupted,
            "loads": [self._at(load) for load in self.study.loads if self.policies(load)],
            "collapse": {name: each.as_dict() for name, each in self.collapses.items()},
            "model_error": self.model_error.factors_as_dict(),
            "provenance": self.provenance,
        }

    def _at(self, load: float) -> dict[str, Any]:
        return {
            "load": load,
            "rate": self.rate(load),
            "workload": self.offered[load],
            "policies": {name: self.result(name, load) for name in self.policies(load)},
            "verdict": self.best(load).as_dict(),
        }

    def cases(self) -> list[Case]:
        """The results as reports take them, with curves of the first seed; loads tried in search of a collapse too."""
        from poise.report.figures import Case

        found = []
        for load in sorted({place.load for place in self.cells}):
            for name in self.policies(load):
                result, rate, first = self.result(name, load), self.rate(load), self.of(name, load)[0]
                if load not in self.study.loads:
                    found.append(Case(name, result, load, rate, probe=True))
                    continue
                drawn = first.curves("latency"), first.curves("timeline"), first.worst(), first.blame()
                found.append(Case(name, result, load, rate, *drawn))
        return found
