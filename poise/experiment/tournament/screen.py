"""The screening: every factor alone in every block, a balanced selection of combinations, and the finalists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poise.experiment.tournament.contest import Contest, Trial
from poise.experiment.tournament.design import balanced, imbalance
from poise.experiment.tournament.effects import Fit, Row, Term, fit
from poise.experiment.tournament.factor import Combination, Factor, alone, every, reference
from poise.experiment.tournament.runner import TrialRunner
from poise.report.intervals import Interval, over_seeds
from poise.report.seeds import CONFIDENCE


@dataclass(frozen=True, slots=True)
class Screen:
    """The results of the short runs; differences are in the deciding figure, more being better.

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


def trials(contest: Contest, carried: Sequence[float]) -> tuple[list[Trial], list[Trial]]:
    """Those that change one factor at a time, and the balanced ones; `carried`: by each block's reference."""
    cells = [(block, float(f"{factor * own:.4g}")) for block, own in enumerate(carried) for factor in contest.at]
    seed, single = contest.seed, alone(contest.factors)
    each = (contest.runs - len(cells) * len(single)) // len(cells)
    chosen = balanced([len(factor.levels) for factor in contest.factors], len(cells), each, seed) if each else []
    one = [Trial(block, at, seed, levels) for block, at in cells for levels in single]
    several = [
        Trial(block, at, seed, levels)
        for (block, at), some in zip(cells, chosen, strict=False)
        for levels in dict.fromkeys(some)
    ]
    return one, several


def screened(runner: TrialRunner[Any, Any], contest: Contest, carried: Sequence[float]) -> Screen | None:
    """Run the screening; None where the user stopped it, or other shards have the rest of it."""
    one, several = trials(contest, carried)
    if not runner.fill("short runs", [*one, *several], apart=True):
        return None
    first, rows = _rows(runner, one), _rows(runner, several)
    levels = [len(factor.levels) for factor in contest.factors]
    whole = fit([*first, *rows], levels, interactions=bool(rows))
    return Screen(
        _alone(first, contest.factors),
        whole,
        _parts(contest, first),
        _beyond(whole),
        len({*one, *several}),
        len(one) + len(several) - len(first) - len(rows),
        imbalance([row.levels for row in rows], levels) if rows else 0.0,
    )


def _rows(runner: TrialRunner[Any, Any], some: Sequence[Trial]) -> list[Row]:
    by = runner.blocks[0].by
    sign = -1 if by.better == "less" else 1
    found = []
    for trial in some:
        value = runner.value(trial, by.name)
        if value is not None:
            found.append(Row(trial.block, round(trial.at * 1e6), trial.levels, sign * value))
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


def _parts(contest: Contest, rows: Sequence[Row]) -> dict[str, dict[tuple[int, int], Interval]]:
    """What each level changes by itself in the blocks of each name of the first kind."""
    return {
        name: _alone([row for row in rows if contest.blocks[row.block][0] == name], contest.factors)
        for name in contest.parts
    }


def _beyond(whole: Fit) -> tuple[tuple[Term, int, int], ...]:
    """The pairs of levels with a significant interaction, all tested at once (Bonferroni)."""
    pairs = [
        (term, one, two)
        for term in whole.pairs()
        for one in range(whole.levels[term[0]])
        for two in range(whole.levels[term[1]])
    ]
    confidence = 1 - (1 - CONFIDENCE) / max(len(pairs), 1)
    return tuple(each for each in pairs if whole.joint(*each, confidence).apart)


def active(screen: Screen, factors: Sequence[Factor]) -> list[int]:
    """The factors with a level that is significantly better or worse than the reference, or that interact."""
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
