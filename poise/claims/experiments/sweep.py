"""The policies of a claim under one scenario, along the axes that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Test
from poise.claims.experiments.setting import built, scenario
from poise.claims.sweep import Sweep, ratio, times
from poise.core.errors import UserError
from poise.report.wording import significant

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison


def measure(claim: Claim, bench: Bench) -> Findings:
    """What criteria ask of sweeps, and the curves that these name."""
    first = next(iter(claim.sweeps))
    answers = [
        _answer(key, each.test, swept(claim, bench, each.test.sweep or first))
        for key, each in claim.criteria.items()
        if each.test and each.test.figure
    ]
    curves = [
        swept(claim, bench, name).curve(title, figure)
        for name, sweep in claim.sweeps.items()
        for title, figure in sweep.curves.items()
    ]
    return Findings(answers, curves)


def swept(claim: Claim, bench: Bench, name: str) -> Sweep:
    """All places of an axis; compared once."""
    section = claim.sweeps[name]

    def compared(place: float) -> Comparison:
        whole = scenario(claim, bench, section.changes(place))
        problems = {label: built(whole, label, bench) for label in section.of or claim.compare}
        one = next(iter(problems.values()))
        bundles = {label: each.bundles[0][1] for label, each in problems.items()}
        return bench.compare(
            f"{name}: {place:g}", one.cluster, one.traffic.make, bundles, slo=one.slo, belief=one.belief, cost=one.cost,
            warmup_s=one.warmup_s, seeds=bench.seeds(),
        )  # fmt: skip

    found: Sweep = bench.once(name, lambda: Sweep(section.across, {place: compared(place) for place in section.at}))
    return found


def _answer(key: str, test: Test, sweep: Sweep) -> Answer:
    """What a sweep has of a figure: leads over others, or how many times as much one has as another."""
    if test.ahead:
        return sweep.ahead(key, test.figure, test.ahead, test.of)
    if test.growth:
        at = {x: _counts(sweep, x, test.growth, test) for x in sweep.at}
        grown = {after: ratio(at[before], at[after]) for before, after in pairwise(at)}
        return Answer(key, _text(grown), list(grown.values()))
    own, other = test.times or test.peak or test.rise
    places = list(sweep.at)[-(test.last or 0) :]
    ratios = {x: ratio(_counts(sweep, x, own, test), _counts(sweep, x, other, test)) for x in places}
    if test.over:
        beside = {x: sweep.ratio(x, test.over, own, other) for x in places}
        return Answer(key, f"{_text(ratios)}; of {test.over} {_text(beside)}", _more(ratios, beside))
    return Answer(key, _text(ratios), _taken(list(ratios.values()), test))


def _more(ratios: Mapping[float, Ratio], beside: Mapping[float, Ratio]) -> list[float]:
    """How many times as large each ratio is as the one beside it; 0 where one of the two is missing."""
    return [(each.value or 0.0) / beside[x].value if beside[x].value else 0.0 for x, each in ratios.items()]  # type: ignore[operator]


def _taken(ratios: list[Ratio], test: Test) -> Sequence[Ratio | float]:
    """Of ratios along an axis those that are asked about."""
    if test.peak:
        return [max(ratios, key=lambda each: each.value or 0.0)]
    if test.rise:
        return [(after.value or 0.0) / (before.value or 1.0) for before, after in pairwise(ratios)]
    return ratios


def _counts(sweep: Sweep, x: float, policy: str, test: Test) -> list[float]:
    """A figure of each seed, or the sum of several."""
    parts = [sweep.seeds(x, policy, each.strip()) for each in test.figure.split("+")]
    return [sum(each) for each in zip(*parts, strict=True)]


def _text(ratios: Mapping[float, Ratio]) -> str:
    if not ratios:
        raise UserError("an axis of one place has no growth; give another")
    return "; ".join(f"at {significant(x)}: {times(each)} times" for x, each in ratios.items())
