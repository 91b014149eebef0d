"""When to look at results that come in seed by seed, so that intervals hold at whichever look the series ends.

Each look gets a part of the error (alpha spending: Lan and DeMets 1983; here by the union bound). However looks depend
on one another, the chance that one or more of their intervals misses the truth is at most the sum of the parts.
"""

from __future__ import annotations

from typing import NamedTuple

from poise.core.errors import UserError
from poise.report.seeds import CONFIDENCE

FIRST = 5
"""Seeds of the first look; each look has twice the seeds of the one before."""


class Look(NamedTuple):
    """A look after so many seeds, and the confidence of its interval."""

    seeds: int
    confidence: float


def looks(most: int, confidence: float = CONFIDENCE) -> tuple[Look, ...]:
    """The looks of a series of `most` seeds at most, whose intervals all hold with `confidence`; UserError below 2.

    The n-th look has n times the error of the first: an early end needs a clear result, and most is left for the last.
    """
    if most < 2:
        raise UserError(f"seeds = {most}: an interval needs two or more; give at least 2")
    counts = [FIRST]
    while counts[-1] * 2 < most:
        counts.append(counts[-1] * 2)
    counts = [count for count in counts if count < most] + [most]
    parts = sum(range(1, len(counts) + 1))
    return tuple(Look(count, 1 - (1 - confidence) * n / parts) for n, count in enumerate(counts, 1))


def times(value: float, half: float, goal: float) -> float | None:
    """By which factor more seeds would decide on which side of `goal` a share lies if it stays at `value`; at least 1.

    Intervals narrow with the root of the number, around a share of 1 with the number itself. None where nothing would.
    """
    gap = abs(value - goal)
    if not gap:
        return None
    return max(half / gap if value == 1.0 else (half / gap) ** 2, 1.0)
