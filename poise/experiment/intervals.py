"""Confidence intervals of the figures of some cells, and of the difference of two, paired by seed."""

from __future__ import annotations

from collections.abc import Sequence

from poise.experiment.case import Done
from poise.report.figures import Figure
from poise.report.intervals import EXACT, Interval, over_seeds
from poise.report.seeds import CONFIDENCE

ALIKE = "the seeds changed nothing, so they say nothing about chance"


def mean(values: Sequence[float | None]) -> float | None:
    """The mean, None where one of them is missing."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def single(cells: Sequence[Done], figure: Figure, confidence: float = CONFIDENCE) -> Interval:
    """A figure of a case over its seeds, with its interval."""
    found = over_seeds([figure.value(cell.figures) for cell in cells], confidence)
    return Interval(found.value, None, ALIKE) if alike(cells) else found


def paired(base: Sequence[Done], other: Sequence[Done], figure: Figure, confidence: float = CONFIDENCE) -> Interval:
    """How much more of a figure `other` has than `base`, by the seeds that both have run."""
    known = {cell.place[2]: cell for cell in base}
    both = [(known[cell.place[2]], cell) for cell in other if cell.place[2] in known]
    gaps: list[float | None] = []
    for one, two in both:
        before, after = figure.value(one.figures), figure.value(two.figures)
        gaps.append(None if before is None or after is None else after - before)
    found = over_seeds(gaps, confidence)
    same = alike([one for one, _ in both]) and alike([two for _, two in both])
    return Interval(found.value, None, ALIKE) if same else found


def exact(cells: Sequence[Done], figure: Figure) -> Interval:
    """A figure without chance."""
    value = mean([figure.value(cell.figures) for cell in cells])
    return Interval(value, None if value is None else 0.0, EXACT)


def exact_gap(base: Sequence[Done], other: Sequence[Done], figure: Figure) -> Interval:
    """A difference without chance."""
    before, after = (mean([figure.value(cell.figures) for cell in cells]) for cells in (base, other))
    if before is None or after is None:
        return Interval(None, None, "one of them has no such figure")
    return Interval(after - before, 0.0, EXACT)


def alike(cells: Sequence[Done]) -> bool:
    """Whether two or more seeds gave the very same figures."""
    return len(cells) > 1 and all(cell.figures == cells[0].figures for cell in cells)
