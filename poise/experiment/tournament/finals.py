"""The finals of a tournament: longer runs of a few combinations, and their ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from poise.experiment.comparison import Compared
from poise.experiment.tournament.factor import Combination, Factor, label
from poise.report.intervals import Interval, over_seeds
from poise.report.seeds import CONFIDENCE


@dataclass(frozen=True, slots=True)
class Ranking:
    """One finalist. mean: of the deciding figure over all blocks and loads.  to_best, to_reference: how much better it
    is, with the interval over blocks, all finalists at once.  better, worse: in how many of the `cells` (a block at a
    load) it is beyond the chance of seeds, or of time, better or worse than the reference."""

    name: str
    levels: Combination
    mean: float
    to_best: Interval
    to_reference: Interval
    better: int
    worse: int
    cells: int


@dataclass(slots=True)
class Finals:
    """The finalists' comparisons, one for each block. blocks: their names."""

    factors: Sequence[Factor]
    blocks: Sequence[str]
    finalists: Sequence[Combination]
    comparisons: list[Compared[Any, Any]] = field(default_factory=list)

    def standings(self) -> list[Ranking]:
        """All finalists, the best first."""
        means = {each: self._means(each) for each in self.finalists}
        overall = {each: sum(values) / len(values) for each, values in means.items()}
        order = sorted(self.finalists, key=lambda each: (-self._sign * overall[each], each))
        return [self._standing(each, order[0], means, overall[each]) for each in order]

    def together(self) -> list[str]:
        """The best finalist and those that are not significantly worse."""
        standings = self.standings()
        return [each.name for each in standings if each is standings[0] or not each.to_best.apart]

    def by_block(self) -> dict[str, dict[str, float]]:
        """The deciding figure of each finalist in each block, the mean over its loads."""
        means = {label(self.factors, each): self._means(each) for each in self.finalists}
        return {block: {name: values[at] for name, values in means.items()} for at, block in enumerate(self.blocks)}

    def _standing(
        self, own: Combination, best: Combination, means: dict[Combination, list[float]], mean: float
    ) -> Ranking:
        base = self.finalists[0]
        confidence = 1 - (1 - CONFIDENCE) / max(len(self.finalists) - 1, 1)
        signs = [self._ahead(comparison, at, own) for comparison in self.comparisons for at in comparison.study.at]
        return Ranking(
            label(self.factors, own),
            own,
            mean,
            Interval(0.0) if own == best else self._gap(means[own], means[best], confidence),
            Interval(0.0) if own == base else self._gap(means[own], means[base], confidence),
            signs.count(1),
            signs.count(-1),
            len(signs),
        )

    @property
    def _sign(self) -> int:
        return -1 if self.comparisons[0].study.by.better == "less" else 1

    def _means(self, chosen: Combination) -> list[float]:
        """The deciding figure in each block: the mean over its loads."""
        name = label(self.factors, chosen)
        found = []
        for comparison in self.comparisons:
            figure = comparison.study.by.name
            values = [comparison.interval(name, figure, at).value for at in comparison.study.at]
            known = [value for value in values if value is not None]
            found.append(sum(known) / len(known))
        return found

    def _gap(self, own: Sequence[float], other: Sequence[float], confidence: float) -> Interval:
        return over_seeds([self._sign * (one - two) for one, two in zip(own, other, strict=True)], confidence)

    def _ahead(self, comparison: Compared[Any, Any], at: float, own: Combination) -> int:
        """1 where a finalist is significantly better than the reference, -1 where worse, else 0."""
        name, base = (label(self.factors, each) for each in (own, self.finalists[0]))
        if name == base:
            return 0
        found = comparison.interval(name, comparison.study.by.name, at, against=base)
        if not found.apart or found.value is None:
            return 0
        return 1 if self._sign * found.value > 0 else -1
