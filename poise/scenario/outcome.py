"""What a scenario came to: figures of each router over seeds, as the result JSON and as cases for reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from poise.core.records import Run
from poise.report.figures import Case
from poise.report.metrics import Metrics, combine
from poise.report.seeds import fold, half_width, mean

REASONS = 10
"""Reasons for rejection that a result lists, the commonest first."""


@dataclass(slots=True)
class Tally:
    """One router: its figures by seed, times of the simulations, and the run of the first seed."""

    router: str
    seeds: list[int] = field(default_factory=list)
    metrics: list[Metrics] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False
    first: Run | None = None

    def add(self, seed: int, run: Run, metrics: Metrics) -> None:
        """Count the run of one seed; the first is kept for files."""
        self.seeds.append(seed)
        self.metrics.append(metrics)
        self.times.append((run.wall_s, run.cpu_s))
        self.interrupted |= run.interrupted
        for reason, count in run.refusals.items():
            self.refusals[reason] = self.refusals.get(reason, 0) + count
        if self.first is None:
            self.first = run

    def result(self) -> dict[str, Any]:
        """Means over seeds at the top level, with `interval` and `per_seed`; times are those of the simulation."""
        combined = combine(self.metrics)
        said = combined["notes"]
        combined["notes"] = {name: why.replace("a price_per_hour", "a price") for name, why in said.items()}
        combined["wall_s"], combined["cpu_s"] = (mean(column) for column in zip(*self.times, strict=True))
        for told, seed, (wall, cpu) in zip(combined["per_seed"], self.seeds, self.times, strict=True):
            told.update(seed=seed, wall_s=wall, cpu_s=cpu)
        combined["refusals"] = dict(sorted(self.refusals.items(), key=lambda each: -each[1])[:REASONS])
        if self.refusals:
            reason, count = max(self.refusals.items(), key=lambda each: each[1])
            combined["notes"]["rejected"] = f"{reason} ({count} of {sum(self.refusals.values())} for this reason)"
        combined["interrupted"] = self.interrupted
        return combined


@dataclass(slots=True)
class Outcome:
    """The tallies of all routers and what the figures rest on. planned: seeds that each router was to have."""

    tallies: list[Tally]
    provenance: dict[str, Any]
    planned: int = 1
    interrupted: bool = False
    notes: dict[str, str] = field(default_factory=dict)

    def results(self) -> list[tuple[Tally, dict[str, Any]]]:
        """The result of each router that has any."""
        told = [(tally, tally.result()) for tally in self.tallies if tally.metrics]
        for tally, result in told:
            result["notes"] |= self.notes
            if self.interrupted:
                done = f"stopped by the user after {len(tally.seeds)} of {self.planned} seeds"
                result["interrupted"], result["notes"] = True, {"interrupted": done} | result["notes"]
        return told

    def as_dict(self) -> dict[str, Any]:
        """The result JSON: one router's figures at the top level; several under `routers`, each beside the first."""
        results = self.results()
        if len(self.tallies) == 1:
            figures = results[0][1] if results else {"interrupted": True}
            return {**figures, "provenance": self.provenance}
        told: dict[str, Any] = {tally.router: result for tally, result in results}
        for tally, _ in results[1:]:
            told[tally.router]["against"] = against(results[0][0], tally)
        return {"routers": told, "interrupted": self.interrupted, "provenance": self.provenance}

    def cases(self, load: float | None, warmup_s: float) -> list[Case]:
        """The results as reports take them, with curves of the first seed."""
        from poise.report.curves import latency_curves, timeline_curves

        return [
            Case(
                tally.router,
                result,
                load,
                latency_curves(tally.first, warmup_s) if tally.first else None,
                timeline_curves(tally.first) if tally.first else None,
            )
            for tally, result in self.results()
        ]


def against(base: Tally, other: Tally) -> dict[str, Any]:
    """How `other` differs from `base` seed by seed, under the same arrivals: mean and 95 % half-width."""
    common = [seed for seed in other.seeds if seed in base.seeds]
    differences = []
    for seed in common:
        pair = [_figures(tally.metrics[tally.seeds.index(seed)]) for tally in (base, other)]
        differences.append(fold(pair, lambda values: values[1] - values[0]))
    if not differences:
        return {"router": base.router, "difference": None, "interval": None}
    interval = fold(differences, half_width) if len(differences) > 1 else None
    return {"router": base.router, "difference": fold(differences, mean), "interval": interval}


def _figures(metrics: Metrics) -> dict[str, Any]:
    """The numbers of one seed, without notes and without the lists over replicas."""
    return {name: value for name, value in metrics.as_dict().items() if name not in ("notes", "utilisation")}
