"""Prints a tournament as tables."""

from __future__ import annotations

import sys
from typing import TextIO

from poise.experiment.tournament.finals import Finals
from poise.experiment.tournament.result import Outcome
from poise.experiment.tournament.screen import Screen, active
from poise.report.intervals import Interval
from poise.report.table import show
from poise.report.wording import MISSING, Kind, significant, write

MOST = 12
"""Interactions that are listed, the largest first."""


def show_outcome(outcome: Outcome, file: TextIO | None = None) -> None:
    """Print the answer, what was screened, what matters, and the ranking of the finalists."""
    out = file or sys.stdout
    if sentence := answer(outcome):
        out.write(f"{sentence}\n\n")
    if outcome.screen is not None:
        show_screen(outcome, outcome.screen, out)
    if outcome.finals is not None:
        show_finals(outcome, outcome.finals, out)
    if outcome.interrupted:
        out.write("Interrupted; --resume goes on with the runs that are done.\n")


def answer(outcome: Outcome) -> str:
    """The sentence that decides: the best combination, by how much, and those that chance cannot tell from it."""
    if outcome.finals is None:
        return ""
    by, first, together = outcome.by, outcome.finals.standings()[0], outcome.finals.together()
    points = " points" if by.kind == "share" else ""
    much = f"{by.label} {write(first.mean, by.kind, 3)}, {gap(first.to_reference, by.kind)}{points} to the reference"
    if len(together) == 1:
        return f"Take {together[0]}: {much}."
    others = ", ".join(name for name in together if name != first.name)
    return f"Take {first.name}, or as well {others}: {much}; chance cannot tell them apart, and longer finals might."


def show_screen(outcome: Outcome, screen: Screen, out: TextIO) -> None:
    """The effect of every level, alone and on average over the other factors, and the interactions beyond chance."""
    kind, factors = outcome.by.kind, outcome.contest.factors
    blocks = len(outcome.carried)
    out.write(
        f"{screen.runs:,} short runs in {blocks} blocks at {len(outcome.contest.at)} loads; differences in "
        f"{outcome.by.label} to the first level, more being better; ± is half of a 95 % interval over blocks.\n\n"
    )
    for at, factor in enumerate(factors):
        rows = []
        for level in sorted(range(len(factor.levels)), key=lambda each: -float(screen.whole.effects[at,][each])):
            own = screen.alone.get((at, level), Interval(0.0))
            parts = [gap(part.get((at, level), Interval(0.0)), kind, bare=True) for part in screen.parts.values()]
            rows.append((factor.levels[level], gap(screen.whole.against(at, level), kind), gap(own, kind), *parts))
        show(factor.name, ("level", "on average", "alone", *(f"alone, {name}" for name in screen.parts)), rows, out)
    _show_pairs(outcome, screen, out)
    names = [factors[at].name for at in active(screen, factors)]
    out.write(f"What matters beyond chance: {', '.join(names) or 'nothing'}.\n\n")


def _show_pairs(outcome: Outcome, screen: Screen, out: TextIO) -> None:
    factors, kind = outcome.contest.factors, outcome.by.kind
    found = [(screen.whole.joint(*pair), pair) for pair in screen.pairs]
    found.sort(key=lambda each: -abs(each[0].value or 0.0))
    rows = [
        (f"{factors[term[0]].levels[one]} with {factors[term[1]].levels[two]}", gap(joint, kind))
        for joint, (term, one, two) in found[:MOST]
    ]
    if rows:
        show(f"Together more than apart ({len(found)} pairs beyond chance)", ("pair", "beside both"), rows, out)


def show_finals(outcome: Outcome, finals: Finals, out: TextIO) -> None:
    """The ranking."""
    by = outcome.by
    standings = finals.standings()
    rows = [
        (each.name, write(each.mean, by.kind, 3), gap(each.to_best, by.kind), gap(each.to_reference, by.kind),
         f"{each.better} / {each.worse} of {each.cells}")
        for each in standings
    ]  # fmt: skip
    heads = ("combination", by.label, "to the best", "to the reference", "better / worse")
    show("Finals", heads, rows, out)
    together = finals.together()
    text = f"Best: {together[0]}." if len(together) == 1 else f"Indistinguishable: {', '.join(together)}."
    out.write(f"The reference is {', '.join(each.levels[0] for each in outcome.contest.factors)}. {text}\n")


def gap(found: Interval, kind: Kind, *, bare: bool = False) -> str:
    """A difference in words, that of two shares in points; `bare` without its interval, with a * where it is beyond
    chance."""
    if found.value is None:
        return MISSING
    value = _amount(found.value, kind, 3)
    if bare:
        return f"{value}{'*' if found.apart else ''}"
    return value if found.half is None else f"{value} ± {_amount(found.half, kind, 2)}"


def _amount(value: float, kind: Kind, digits: int) -> str:
    return significant(100 * value, digits) if kind == "share" else write(value, kind, digits)
