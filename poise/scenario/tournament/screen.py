"""The screening: every factor alone in every block, a balanced selection of combinations, and who goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poise.report.intervals import Interval, over_seeds
from poise.report.seeds import CONFIDENCE
from poise.scenario.tournament.design import balanced, imbalance
from poise.scenario.tournament.effects import Fit, Row, Term, fit
from poise.scenario.tournament.factor import Combination, Factor, alone, every, reference
from poise.scenario.tournament.read import Asked
from poise.scenario.tournament.work import Hall, Trial


@dataclass(frozen=True, slots=True)
class Screen:
    """What the short runs came to; differences are in the deciding figure, more being better.

    alone: for each factor and level what it changes by itself, from the reference.  parts: the same in the blocks of
    each name of the first kind.  whole: the fit over all blocks and runs.  pairs: interactions beyond chance.
    runs: how many.  lacking: how many had no such figure.  imbalance: see `design.imbalance`.
    """

    alone: Mapping[tuple[int, int], Interval]
    whole: Fit
    parts: Mapping[str, Mapping[tuple[int, int], Interval]]
    pairs: tuple[tuple[Term, int, int], ...]
    runs: int
    lacking: int
    imbalance: float


def trials(asked: Asked, loads: Sequence[float]) -> tuple[list[Trial], list[Trial]]:
    """Those that change one factor at a time, and the balanced ones; `loads`: what each block's reference carries."""
    cells = [(block, float(f"{factor * own:.4g}")) for block, own in enumerate(loads) for factor in asked.file.loads]
    seed, single = asked.file.screen.seed, alone(asked.factors)
    each = (asked.file.screen.runs - len(cells) * len(single)) // len(cells)
    chosen = balanced([len(factor.levels) for factor in asked.factors], len(cells), each, seed) if each else []
    one = [Trial(block, load, seed, levels) for block, load in cells for levels in single]
    several = [
        Trial(block, load, seed, levels)
        for (block, load), some in zip(cells, chosen, strict=False)
        for levels in dict.fromkeys(some)
    ]
    return one, several


def screened(hall: Hall, asked: Asked, loads: Sequence[float]) -> Screen | None:
    """Run the screening; None where the user stopped it."""
    one, several = trials(asked, loads)
    hall.fill("short runs", [*one, *several])
    if not all(hall.has(trial) for trial in (*one, *several)):
        return None
    first, rows = _rows(hall, one), _rows(hall, several)
    levels = [len(factor.levels) for factor in asked.factors]
    whole = fit([*first, *rows], levels, interactions=bool(rows))
    return Screen(
        _alone(first, asked.factors),
        whole,
        _parts(asked, first),
        _beyond(whole),
        len({*one, *several}),
        len(one) + len(several) - len(first) - len(rows),
        imbalance([row.levels for row in rows], levels) if rows else 0.0,
    )


def _rows(hall: Hall, some: Sequence[Trial]) -> list[Row]:
    by = hall.blocks[0].by
    sign = -1 if by.better == "less" else 1
    found = []
    for trial in some:
        value = hall.value(trial, by.name)
        if value is not None:
            found.append(Row(trial.block, round(trial.load * 1e6), trial.levels, sign * value))
    return found


def _alone(rows: Sequence[Row], factors: Sequence[Factor]) -> dict[tuple[int, int], Interval]:
    """What each level changes from the reference: the mean over blocks, each the mean over its loads."""
    base = {(row.block, row.load): row.value for row in rows if row.levels == reference(factors)}
    found = {}
    for chosen in alone(factors)[1:]:
        at = next(place for place, level in enumerate(chosen) if level)
        gaps: dict[int, list[float]] = {}
        for row in rows:
            if row.levels == chosen and (row.block, row.load) in base:
                gaps.setdefault(row.block, []).append(row.value - base[row.block, row.load])
        found[at, chosen[at]] = over_seeds([sum(each) / len(each) for each in gaps.values()])
    return found


def _parts(asked: Asked, rows: Sequence[Row]) -> dict[str, dict[tuple[int, int], Interval]]:
    """What each level changes by itself in the blocks of each name of the first kind."""
    names = asked.names()
    return {
        name: _alone([row for row in rows if names[row.block][0] == name], asked.factors)
        for name in next(iter(asked.file.blocks.values()))
    }


def _beyond(whole: Fit) -> tuple[tuple[Term, int, int], ...]:
    """The pairs of levels that change one another beyond chance, all of them asked at once (Bonferroni)."""
    asked = [
        (term, one, two)
        for term in whole.pairs()
        for one in range(whole.levels[term[0]])
        for two in range(whole.levels[term[1]])
    ]
    confidence = 1 - (1 - CONFIDENCE) / max(len(asked), 1)
    return tuple(each for each in asked if whole.joint(*each, confidence).apart)


def active(screen: Screen, factors: Sequence[Factor]) -> list[int]:
    """The factors of which a level is better or worse than the reference, or changes another factor, beyond chance."""
    joined = {at for term, _, _ in screen.pairs for at in term}
    found = []
    for at, factor in enumerate(factors):
        others = range(1, len(factor.levels))
        confidence = 1 - (1 - CONFIDENCE) / max(len(others), 1)
        if at in joined or any(screen.whole.against(at, level, confidence=confidence).apart for level in others):
            found.append(at)
    return found


def finalists(screen: Screen, factors: Sequence[Factor], count: int) -> list[Combination]:
    """The reference and the combinations that the fit predicts to be the best.

    Factors that did nothing beyond chance stay at the reference; of interactions those count that are beyond chance.
    """
    kept = set(active(screen, factors))
    some = [each for each in every(factors) if all(not level or at in kept for at, level in enumerate(each))]
    ranked = sorted(some, key=lambda each: (-screen.whole.predicted(each, screen.pairs), each))
    base = reference(factors)
    return [base, *[each for each in ranked if each != base][: count - 1]]
