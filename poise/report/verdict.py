"""Compares several results: which is the best, and which are not significantly worse."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from poise.report.figures import Figure
from poise.report.intervals import EXACT, TOO_SHORT, Interval
from poise.report.seeds import CONFIDENCE
from poise.report.wording import write

REACH = 1000
"""Runs longer by more than this factor are not proposed."""


@dataclass(frozen=True, slots=True)
class Length:
    """The amount simulated: requests of a run, and seeds. recorded: more seeds would be the same traffic."""

    requests: int
    seeds: int = 1
    recorded: bool = False

    def times(self, factor: float) -> str:
        """That many times the amount, in words."""
        if self.seeds > 1 and not self.recorded:
            return f"{math.ceil(factor * self.seeds):,} seeds in place of {self.seeds}"
        much = math.ceil(factor * self.requests)
        return f"{float(f'{much:.2g}'):,.0f} requests in place of {self.requests:,}"

    @property
    def cure(self) -> str:
        """What may decide where there is no interval."""
        if self.recorded:
            return "a recording several times as long might decide"
        return "5 seeds might decide" if self.seeds == 1 else "longer runs might decide"


Difference = Callable[[str, str, float], Interval]
"""How much the second result has more than the first, with the interval of a given confidence."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """best: the one with the best value, None where there are not two to compare.

    tied: those that are not significantly different at this length.  unknown: those whose difference has no interval.
    differences: of each other one, how much it has more than the best.  length: the amount of data.
    """

    by: Figure
    best: str | None = None
    tied: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    differences: Mapping[str, Interval] = field(default_factory=dict)
    length: Length | None = None

    @property
    def winner(self) -> str | None:
        """The best where it is significantly better than all others."""
        return self.best if not self.tied and not self.unknown else None

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        fields = {
            name: {"difference": each.value, "interval": each.half, "why": each.why}
            for name, each in self.differences.items()
        }
        return {
            "by": self.by.name,
            "best": self.best,
            "winner": self.winner,
            "indistinguishable": list(self.tied),
            "unknown": list(self.unknown),
            "against_best": fields,
        }

    def __str__(self) -> str:
        """One sentence."""
        if self.best is None:
            return ""
        if self.winner:
            return f"Best by {self.by.label}: {self.winner}{self.lead}."
        if self.unknown:
            return f"No verdict by {self.by.label} between {self.best} and {', '.join(self.unknown)}: {self.lack}."
        if all(self.differences[name].why == EXACT for name in self.tied):
            return f"Equal by {self.by.label}: {', '.join((self.best, *self.tied))}."
        text = f"Indistinguishable at this length by {self.by.label}: {', '.join((self.best, *self.tied))}"
        return f"{text} ({'; '.join(filter(None, (self.within, self.more)))})."

    @property
    def lack(self) -> str:
        """Why the unknown have no interval, and what may decide; empty where there are none."""
        if not self.unknown:
            return ""
        why = self.differences[self.unknown[0]].why
        return f"{why}; {self.length.cure}" if self.length and why == TOO_SHORT else why

    @property
    def lead(self) -> str:
        """The distance of the runner-up, in brackets."""
        name, gap = min(self.differences.items(), key=lambda each: abs(each[1].value or 0))
        return f" (the next is {name}, {_gap(gap, self.by)} away)"

    @property
    def within(self) -> str:
        """The bound within which the tied are equal."""
        gaps = [self.differences[name] for name in self.tied]
        if all(gap.why == EXACT for gap in gaps):
            return "equal"
        within = max(abs(gap.value or 0) + (gap.half or 0) for gap in gaps)
        return f"equal to within {write(within, self.by.kind, 2)}"

    @property
    def more(self) -> str:
        """What it would take to distinguish the tied; empty where that is out of reach."""
        known = [times for name in self.tied if (times := self.differences[name].longer) is not None]
        if not known or max(known) > REACH:
            return ""
        much = self.length.times(max(known)) if self.length else f"{math.ceil(max(known))} times as many requests"
        return f"about {much} might tell them apart"


def _gap(gap: Interval, by: Figure) -> str:
    value = write(abs(gap.value or 0), by.kind, 3)
    return value if gap.why == EXACT else f"{value} ± {write(gap.half, by.kind, 2)}"


def judge(
    by: Figure, results: Mapping[str, float | None], difference: Difference, length: Length | None = None
) -> Verdict:
    """The verdict over `results`, each with its value of `by`; `length` is the amount of data.

    Every other one is compared with the best, each at 1 − 5 %/(k − 1) confidence for k results (Bonferroni). So however
    many there are, the one that is truly best is among `best` and `tied` with 95 % confidence.
    """
    known = {name: value for name, value in results.items() if value is not None}
    if len(known) < 2:
        return Verdict(by)
    best = (max if by.better == "more" else min)(known, key=lambda name: known[name])
    confidence = 1 - (1 - CONFIDENCE) / (len(known) - 1)
    gaps = {name: difference(best, name, confidence) for name in known if name != best}
    unknown = tuple(name for name, gap in gaps.items() if gap.half is None)
    tied = tuple(name for name, gap in gaps.items() if gap.half is not None and not gap.apart)
    return Verdict(by, best, tied, unknown, gaps, length)
