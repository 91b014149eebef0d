"""The results of a scenario under one bundle of policies: its figures over seeds, as JSON and for reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from poise.core.records.records import Run
from poise.report.figures import Case
from poise.report.metrics import Metrics, combine_plain
from poise.report.seeds import mean
from poise.report.shares import independent

if TYPE_CHECKING:
    from poise.report.story import Story
    from poise.scenario.model_error import ModelError
    from poise.workload import Workload

REASONS = 10
"""Reasons for rejection that a result lists, the commonest first."""


def merged(per_seed: Sequence[dict[str, Any]], refusals: Sequence[Mapping[str, int]]) -> dict[str, Any]:
    """Means over the figures of each seed (see `metrics.combine`), with the reasons for which requests were refused."""
    result, counts = combine_plain(per_seed), _summed(refusals)
    notes = {name: why.replace("a price_per_hour", "a price") for name, why in result["notes"].items()}
    result["refusals"] = dict(sorted(counts.items(), key=lambda each: -each[1])[:REASONS])
    if counts:
        reason, count = max(counts.items(), key=lambda each: each[1])
        notes["rejected"] = f"{reason} ({count} of {sum(counts.values())} for this reason)"
    return {**result, "notes": notes}


def _summed(refusals: Sequence[Mapping[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in refusals:
        for reason, count in each.items():
            counts[reason] = counts.get(reason, 0) + count
    return counts


@dataclass(slots=True)
class Outcome:
    """The figures of each seed that is done, the run of the first one, and their basis.

    policies: the label of the policies.  planned: how many seeds there were to be.  workload: that of the first seed.
    blamed: whether the figures include latency attribution.  stories: of the slowest requests, by number.
    pools: the names of the cluster's pools.  independent: how many independent requests each seed is worth.
    answer: the sentence that decides (`scenario.answer`).  model_error: how far a measured run may be.
    """

    policies: str
    provenance: dict[str, Any]
    planned: int = 1
    notes: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    seeds: list[int] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)
    refusals: list[Mapping[str, int]] = field(default_factory=list)
    independent: list[float] = field(default_factory=list)
    first: Run | None = None
    workload: Workload | None = None
    blamed: bool = False
    stories: dict[int, Story] = field(default_factory=dict)
    pools: list[str] = field(default_factory=list)
    answer: str = ""
    model_error: ModelError | None = None

    def add(self, seed: int, run: Run, metrics: Metrics, warmup_s: float = 0.0) -> None:
        """Add the run of one seed; the first is kept for files."""
        self.seeds.append(seed)
        self.figures.append(metrics.as_dict())
        self.times.append((run.wall_s, run.cpu_s))
        self.refusals.append(run.refusals)
        self.independent.append(independent(run, warmup_s))
        self.interrupted |= run.interrupted
        if self.first is None:
            self.first = run

    def result(self) -> dict[str, Any] | None:
        """Means over seeds at the top level, with `interval` and `per_seed`; times are those of the simulation."""
        if not self.figures:
            return None
        result = merged(self.figures, self.refusals)
        self._bound_shares(result["interval"])
        result["wall_s"], result["cpu_s"] = (mean(column) for column in zip(*self.times, strict=True))
        result["per_seed"] = [
            {**figures, "seed": seed, "wall_s": wall, "cpu_s": cpu}
            for figures, seed, (wall, cpu) in zip(self.figures, self.seeds, self.times, strict=True)
        ]
        result["notes"] |= self.notes
        if self.interrupted:
            done = f"stopped by the user after {len(self.seeds)} of {self.planned} seeds"
            result["notes"] = {"interrupted": done} | result["notes"]
        return {**result, "interrupted": self.interrupted}

    def _bound_shares(self, halves: dict[str, Any] | None) -> None:
        """Give shares intervals that are valid near 0 and 1 too, as in a comparison: 100 % in all seeds is not ± 0."""
        from poise.scenario.compare.cell import Cell
        from poise.scenario.compare.study import Place
        from poise.scenario.compare.uncertainty import shares_over_seeds

        if halves is None:
            return
        seeds = zip(self.seeds, self.figures, self.independent, strict=True)
        cells = [Cell(Place(1.0, self.policies, seed), each, None, independent=worth) for seed, each, worth in seeds]
        shares_over_seeds(cells, halves)

    def as_dict(self) -> dict[str, Any]:
        """The result JSON."""
        result = self.result() or {"interrupted": True}
        error = {"model_error": self.model_error.as_dict(result)} if self.model_error else {}
        return {"answer": self.answer, **result, **error, "provenance": self.provenance}

    def cases(self, warmup_s: float) -> list[Case]:
        """The result as reports take it, with curves of the first seed."""
        from poise.report.blame import samples
        from poise.report.curves import latency_curves, replica_curves
        from poise.report.faults import fault_curves
        from poise.report.scaling import pool_curves
        from poise.report.worst import as_rows, worst

        result, run = self.result(), self.first
        if result is None or run is None:
            return []
        slow = {name: as_rows(each) for name, each in worst(run, warmup_s).items()}
        latency, timeline = latency_curves(run, warmup_s), replica_curves(run)
        if timeline:
            timeline |= pool_curves(run, self.pools) | fault_curves(run)
        blame = samples(run, warmup_s)
        return [
            Case(
                self.policies, result, latency=latency, timeline=timeline, worst=slow, blame=blame, stories=self.stories
            )
        ]
