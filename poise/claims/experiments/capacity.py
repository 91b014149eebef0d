"""The highest rate at which each policy of a claim keeps enough requests within the limits of its setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import CapacitySection, Claim, Curve, Point, Test
from poise.claims.experiments.figures import SLICED, Seen
from poise.claims.experiments.setting import built, scenario
from poise.claims.sweep import ratio, times
from poise.policies.place.distserve import goodput

if TYPE_CHECKING:
    from poise.scenario.build import Problem


def measure(claim: Claim, bench: Bench) -> Findings:
    """Each search that a criterion asks about, and the curves that searches name."""
    answers = [
        _answer(key, each.test, searched(claim, bench, each.test.capacity), claim.capacities[each.test.capacity])
        for key, each in claim.criteria.items()
        if each.test and each.test.capacity
    ]
    return Findings(answers, [_Search(claim, each, bench).curve() for each in claim.capacities.values() if each.at])


def searched(claim: Claim, bench: Bench, name: str) -> dict[str, list[float]]:
    """The highest rates of a search for each seed, by label; searched for once."""
    section = claim.capacities[name]
    search = _Search(claim, section, bench)
    found: dict[str, list[float]] = bench.once(
        name, lambda: {label: search.highest(label) for label in section.of or claim.labels}
    )
    return found


@dataclass(frozen=True, slots=True)
class _Search:
    """One search of a claim, for any of its policies."""

    claim: Claim
    section: CapacitySection
    bench: Bench

    def highest(self, label: str) -> list[float]:
        """The highest rate for each seed, to within the section's precision."""
        return [
            goodput(lambda rate, seed=seed: self.met(label, rate, seed), self.section.most, self.section.within)  # type: ignore[misc]
            for seed in range(self.bench.seeds())
        ]

    def met(self, label: str, rate: float, seed: int) -> bool:
        """Whether a run at a rate is within the limits."""
        seen = self._seen(label, rate, seed)
        if self.section.limits:
            return all(seen.figure(path) <= most for path, most in self.section.limits.items())
        return seen.figure(self.section.figure) >= self.section.met

    def _seen(self, label: str, rate: float, seed: int) -> Seen:
        problem = self._problem(label, rate)
        if self.section.per_device:
            problem = self._problem(label, rate * sum(pool.replicas * pool.devices for pool in problem.cluster.pools))
        workload = problem.traffic.make(seed)
        slices = any(path.partition(".")[0] in SLICED for path in self.section.limits)
        result = self.bench.simulate(
            problem.cluster, workload, problem.bundles[0][1], cost=problem.cost, belief=problem.belief, slices=slices
        )
        return Seen(result, workload, problem)

    def _problem(self, label: str, rate: float) -> Problem:
        changes = {**self.section.set, **self.claim.settings.get(label, {}), self.section.vary: rate}
        return built(scenario(self.claim, self.bench, changes), label, self.bench)

    def curve(self) -> Curve:
        """The share within the limits by rate, of the first seed."""
        lines = {
            label: [Point(rate, self._seen(label, rate, 0).figure(self.section.figure)) for rate in self.section.at]
            for label in self.section.of or self.claim.labels
        }
        return Curve("Requests within both limits", self.section.across, "share", lines)


def _answer(key: str, test: Test, found: dict[str, list[float]], section: CapacitySection) -> Answer:
    """How many times as much one carries as another, or whether means are in an order."""
    if test.times:
        own, other = test.times
        more = ratio(found[own], found[other])
        return Answer(key, f"{times(more)} times", more)
    text = ", ".join(f"{name} {fmean(each):.2f}" for name, each in found.items())
    return Answer(
        key, f"{section.across}: {text}", _descends([[fmean(found[each]) for each in row] for row in test.order])
    )


def _descends(rows: Sequence[Sequence[float]]) -> bool:
    """Whether all of a row are above all of the next."""
    return all(min(one) > max(two) for one, two in pairwise(rows))
