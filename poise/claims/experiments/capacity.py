"""The highest rate at which each policy of a claim keeps enough requests within the limits of its setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import CapacitySection, Claim, Curve, Halfway, Point, Test
from poise.claims.experiments.setting import built, scenario
from poise.claims.stalls import capacity
from poise.claims.sweep import ratio, times

if TYPE_CHECKING:
    from poise.scenario.build import Problem
    from poise.workload import Workload


def measure(claim: Claim, bench: Bench) -> Findings:
    """Each search, with what its criteria ask and the curves that it names."""
    searches = {name: _Search(claim, each, bench) for name, each in claim.capacities.items()}
    found = {name: {label: each.highest(label) for label in claim.compare} for name, each in searches.items()}
    answers = [
        _answer(key, each.test, found[each.test.capacity], claim.capacities[each.test.capacity])
        for key, each in claim.criteria.items()
        if each.test and each.test.capacity
    ]
    return Findings(answers, [each.curve() for each in searches.values() if each.section.at])


@dataclass(frozen=True, slots=True)
class _Search:
    """One search of a claim, for any of its policies."""

    claim: Claim
    section: CapacitySection
    bench: Bench

    def highest(self, label: str) -> list[float]:
        """The highest rate for each seed."""

        def meets(rate: float, seed: int) -> bool:
            return self.met(label, rate, seed) >= self.section.met

        return capacity(meets, self.bench.seeds(), self.section.most, self.section.within)

    def met(self, label: str, rate: float, seed: int) -> float:
        """The share of requests within the limits at a rate."""
        problem = self._problem(label, rate)
        if self.section.per_device:
            problem = self._problem(label, rate * sum(pool.replicas * pool.devices for pool in problem.cluster.pools))
        workload = problem.traffic.make(seed)
        if self.section.halfway:
            workload = _shifted(workload, self.section.halfway)
        result = self.bench.simulate(
            problem.cluster, workload, problem.bundles[0][1], cost=problem.cost, belief=problem.belief
        )
        return result.metrics(problem.slo, warmup_s=problem.warmup_s).slo_attainment or 0.0

    def _problem(self, label: str, rate: float) -> Problem:
        changes = {**self.section.set, **self.claim.settings.get(label, {}), self.section.vary: rate}
        return built(scenario(self.claim, self.bench, changes), label, self.bench)

    def curve(self) -> Curve:
        """The share within the limits by rate, of the first seed."""
        lines = {
            label: [Point(rate, self.met(label, rate, 0)) for rate in self.section.at] for label in self.claim.compare
        }
        return Curve("Requests within both limits", self.section.across, "share", lines)


def _shifted(workload: Workload, change: Halfway) -> Workload:
    """From half of the requests on, prompts and outputs of other lengths; a length that is cut keeps a token more."""
    late = np.arange(len(workload.prompt)) >= len(workload.prompt) // 2
    prompt, output = (
        np.where(late, np.floor(each * by) + (by < 1), each).astype("i4")
        for each, by in ((workload.prompt, change.prompt), (workload.output, change.output))
    )
    return replace(workload, prompt=prompt, output=output)


def _answer(key: str, test: Test, found: dict[str, list[float]], section: CapacitySection) -> Answer:
    """How many times as much one carries as another, or whether means are in an order."""
    if test.times:
        own, other = test.times
        more = ratio(found[own], found[other])
        return Answer(key, f"{times(more)} times", more)
    told = ", ".join(f"{name} {fmean(each):.2f}" for name, each in found.items())
    return Answer(
        key, f"{section.across}: {told}", _descends([[fmean(found[each]) for each in row] for row in test.order])
    )


def _descends(rows: Sequence[Sequence[float]]) -> bool:
    """Whether all of a row are above all of the next."""
    return all(min(one) > max(two) for one, two in pairwise(rows))
