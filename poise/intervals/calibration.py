"""A fitted error model, which states the interval of any figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp

from poise.intervals.conditions import Conditions
from poise.intervals.interval import Interval


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted error model, all in logarithms of slowness (measured time over predicted time).

    middle, spread: what each term adds to the middle and to the logarithm of the spread.  quantiles: errors over their
    spread at `LEVELS`, by figure.  seen: names that calibration rows had.  own: by figure, the part of the
    variance that rows of one deployment have in common (`poise.intervals.own`).
    """

    middle: Mapping[str, float]
    spread: Mapping[str, float]
    quantiles: Mapping[str, Sequence[float]]
    seen: frozenset[str] = frozenset()
    own: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)

    def interval(self, of: Conditions) -> Interval:
        """The interval of a figure under conditions."""
        unseen = tuple(term for term in of.own() if term not in self.seen)
        middle = sum(self.middle.get(term, 0.0) for term in (*of.general(), *of.own()))
        spread = exp(sum(self.spread.get(term, 0.0) for term in (*of.general(), *new_terms(of, unseen))))
        logs = [of.slower * (middle + spread * each) for each in self.quantiles[of.figure]]
        return Interval(tuple(sorted(logs)), unseen)


def new_terms(of: Conditions, unseen: Sequence[str]) -> tuple[str, ...]:
    """Terms of the spread for what no other row had: `ttft new model` and the like."""
    kinds = ("model", "device", "engine on device", "engine of model")
    missing = set(unseen)
    return tuple(f"{of.figure} new {kind}" for kind, term in zip(kinds, of.own(), strict=True) if term in missing)
