"""Runs of each label of a claim at each place of an axis, and what its formulas say of them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Claim, RunsSection
from poise.claims.experiments.capacity import searched
from poise.claims.experiments.drawn import curves, formulas
from poise.claims.experiments.figures import SLICED, Seen
from poise.claims.experiments.formula import Names, Table, evaluated, figures, parsed, worded
from poise.claims.experiments.points import tabled
from poise.claims.experiments.setting import built, scenario
from poise.claims.experiments.sweep import swept

if TYPE_CHECKING:
    from poise.claims.sweep import Sweep


def measure(claim: Claim, bench: Bench) -> Findings:
    """What each formula of a criterion comes to, and the curves of the runs."""
    lets = {name: parsed(text) for name, text in claim.let.items()}
    trees = {key: parsed(each.test.value) for key, each in claim.criteria.items() if each.test and each.test.value}
    shown = {key: parsed(each.test.shows) for key, each in claim.criteria.items() if each.test and each.test.shows}
    trees |= {key: parsed(text) for key, text in claim.shown.items()}
    wanted = set().union(*(figures(tree) for tree in (*lets.values(), *trees.values(), *shown.values())))
    tables = _tables(claim, bench, wanted, {*_named(trees), *_named(shown), *_named(lets)})
    names: Names = {**tables, **lets}
    answers = [Answer(key, worded(shown.get(key, tree), names), evaluated(tree, names)) for key, tree in trees.items()]
    drawn = [curves(each, name, tables[name], names) for name, each in (*claim.points.items(), *claim.runs.items())]
    return Findings(answers, [curve for some in drawn for curve in some])


def _named(trees: Mapping[str, ast.expr]) -> set[str]:
    """All names in formulas."""
    return {node.id for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _tables(claim: Claim, bench: Bench, wanted: set[tuple[str, str]], named: set[str]) -> dict[str, Table]:
    """All runs, and those sweeps and searches that formulas name."""
    found: dict[str, Table] = {name: tabled(each, bench) for name, each in claim.points.items()}
    known: Names = dict.fromkeys((*claim.runs, *claim.points), Searched({}))
    for name, runs in claim.runs.items():
        drawn = formulas(runs, name, "", known).values()
        paths = {path for table, path in wanted.union(*map(figures, drawn)) if table == name}
        found[name] = ran(claim, runs, bench, sorted(paths))
    for name in named & {*claim.sweeps}:
        found[name] = Swept(swept(claim, bench, name))
    for name in named & {*claim.capacities}:
        found[name] = Searched(searched(claim, bench, name))
    return found


@dataclass(frozen=True, slots=True)
class Ran:
    """Figures of runs by label, place and path, a value for each seed."""

    labels: Sequence[str]
    places: Sequence[float]
    found: Mapping[tuple[str, float, str], list[float]]

    def seeds(self, label: str, place: float, path: str) -> list[float]:
        """A figure of each seed."""
        return self.found[label, place, path]


@dataclass(frozen=True, slots=True)
class Swept:
    """Figures of a sweep."""

    sweep: Sweep

    @property
    def labels(self) -> Sequence[str]:
        """The policies that are compared."""
        return list(next(iter(self.sweep.at.values())).study.policies)

    @property
    def places(self) -> Sequence[float]:
        """The axis."""
        return list(self.sweep.at)

    def seeds(self, label: str, place: float, path: str) -> list[float]:
        """A figure of each seed."""
        return self.sweep.seeds(place, label, path)


@dataclass(frozen=True, slots=True)
class Searched:
    """The highest rates of a search: one place, and no figure but the rate."""

    rates: Mapping[str, list[float]]
    places: Sequence[float] = (0.0,)

    @property
    def labels(self) -> Sequence[str]:
        """Those that were searched for."""
        return list(self.rates)

    def seeds(self, label: str, place: float, path: str) -> list[float]:
        """The rate of each seed."""
        return self.rates[label]


def ran(claim: Claim, runs: RunsSection, bench: Bench, paths: Sequence[str]) -> Ran:
    """Simulate every label at every place with every seed."""
    labels, found = runs.of or claim.labels, {}
    for place in runs.at:
        for label in labels:
            seen = [_seen(claim, runs, bench, label, place, seed, paths) for seed in range(bench.seeds(runs.seeds))]
            found.update({(label, place, path): [each[path] for each in seen] for path in paths})
    return Ran(labels, runs.at, found)


def _seen(
    claim: Claim, runs: RunsSection, bench: Bench, label: str, place: float, seed: int, paths: Sequence[str]
) -> dict[str, float]:
    """The figures of one run."""
    changes = runs.changes_of(label, place, claim.settings.get(label, {}))
    problem = built(scenario(claim, bench, changes, whole=runs.whole), label, bench)
    workload = problem.traffic.make(seed)
    first = {path.partition(".")[0] for path in paths}
    result = bench.simulate(
        problem.cluster, workload, problem.bundles[0][1], cost=problem.cost, belief=problem.belief, seed=seed,
        until=problem.until_s, drain=problem.drain, slices=bool(first & {*SLICED}),
    )  # fmt: skip
    seen = Seen(result, workload, problem)
    return {path: seen.figure(path) for path in paths}
