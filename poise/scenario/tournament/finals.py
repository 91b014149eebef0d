"""The finals: longer runs of a few combinations, with seeds or blocks of time, and their ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from poise.report.intervals import Interval, over_seeds
from poise.report.seeds import CONFIDENCE
from poise.scenario.compare.cell import Cell
from poise.scenario.compare.comparison import Comparison
from poise.scenario.compare.store import Store
from poise.scenario.compare.study import Place
from poise.scenario.crew import Crew
from poise.scenario.tournament.block import Block
from poise.scenario.tournament.factor import Combination, Factor, label
from poise.scenario.tournament.work import Keyed, Meter, Played, Trial, tasks
from poise.scenario.write import file_name


@dataclass(frozen=True, slots=True)
class Standing:
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
    """The finalists' comparisons, one for each block."""

    blocks: Sequence[Block]
    finalists: Sequence[Combination]
    comparisons: list[Comparison] = field(default_factory=list)

    @property
    def factors(self) -> Sequence[Factor]:
        """What was varied."""
        return self.blocks[0].asked.factors

    def standings(self) -> list[Standing]:
        """All finalists, the best first."""
        means = {each: self._means(each) for each in self.finalists}
        overall = {each: sum(values) / len(values) for each, values in means.items()}
        order = sorted(self.finalists, key=lambda each: (-self._sign * overall[each], each))
        return [self._standing(each, order[0], means, overall[each]) for each in order]

    def together(self) -> list[str]:
        """The best finalist and those that chance may set apart from it."""
        told = self.standings()
        return [each.name for each in told if each is told[0] or not each.to_best.apart]

    def by_block(self) -> dict[str, dict[str, float]]:
        """The deciding figure of each finalist in each block, the mean over its loads."""
        names = [block.name for block in self.blocks]
        means = {label(self.factors, each): self._means(each) for each in self.finalists}
        return {block: {name: values[at] for name, values in means.items()} for at, block in enumerate(names)}

    def _standing(
        self, own: Combination, best: Combination, means: dict[Combination, list[float]], mean: float
    ) -> Standing:
        base = self.finalists[0]
        confidence = 1 - (1 - CONFIDENCE) / max(len(self.finalists) - 1, 1)
        signs = [
            self._ahead(comparison, load, own) for comparison in self.comparisons for load in comparison.study.loads
        ]
        return Standing(
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
            values = [comparison.interval(name, figure, load).value for load in comparison.study.loads]
            known = [value for value in values if value is not None]
            found.append(sum(known) / len(known))
        return found

    def _gap(self, own: Sequence[float], other: Sequence[float], confidence: float) -> Interval:
        return over_seeds([self._sign * (one - two) for one, two in zip(own, other, strict=True)], confidence)

    def _ahead(self, comparison: Comparison, load: float, own: Combination) -> int:
        """1 where a finalist is better than the reference beyond chance, -1 where worse, else 0."""
        name, base = (label(self.factors, each) for each in (own, self.finalists[0]))
        if name == base:
            return 0
        found = comparison.interval(name, comparison.study.by.name, load, against=base)
        if not found.apart or found.value is None:
            return 0
        return 1 if self._sign * found.value > 0 else -1


def played_out(
    blocks: Sequence[Block], loads: Sequence[Sequence[float]], finalists: Sequence[Combination], seeds: int,
    crew: Crew[Keyed, Played], folder: Path | None, meter: Meter,
) -> Finals | None:  # fmt: skip
    """Run the finals; None where the user stopped them. loads: those of each block."""
    factors = blocks[0].asked.factors
    finals = Finals(blocks, finalists)
    trials: list[Trial] = []
    stores: list[Store | None] = []
    for at, block in enumerate(blocks):
        study = block.study(finalists, loads[at], [0] if block.recorded else range(seeds))
        comparison = Comparison(study)
        prints = {label(factors, each): block.print(each, 0.0, 0) for each in finalists}
        store = None if folder is None else Store(folder / "finals" / file_name(block.name), prints, renews=True)
        own = [Trial(at, load, seed, each) for load in study.loads for seed in study.seeds for each in finalists]
        trials += [trial for trial in own if not _found(comparison, store, factors, trial)]
        finals.comparisons.append(comparison)
        stores.append(store)
    total, ended = sum(len(each.study.places()) for each in finals.comparisons), 0
    ended = total - len(trials)

    def done(came: Played) -> None:
        nonlocal ended
        at, ended = came.trial.block, ended + 1
        finals.comparisons[at].cells[came.cell.place] = came.cell
        if (store := stores[at]) is not None:
            store.save(came.cell)
        meter("long runs", ended, total)

    meter("long runs", ended, total)
    crew.work(tasks(blocks, trials, cut=True), done)
    return finals if ended == total else None


def _found(comparison: Comparison, store: Store | None, factors: Sequence[Factor], trial: Trial) -> Cell | None:
    """The cell of a trial, where it was saved."""
    place = Place(trial.load, label(factors, trial.levels), trial.seed)
    found = None if store is None else store.find(place)
    if found is not None:
        comparison.cells[place] = found
    return found
