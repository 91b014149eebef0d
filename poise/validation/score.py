"""Scores of answers by source, device, model, engine and metric: coverage, bias, median and 90th percentile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from poise.intervals import Interval
from poise.validation.answer import Answer
from poise.validation.evidence import stated

ALL = "all"
"""The placeholder of a column over which a total is taken."""

INSIDE = 0.9
"""The confidence of the intervals within which answers are counted."""

Key = tuple[str, str, str, str, str]
"""Source, device, model, engine and metric."""


@dataclass(frozen=True, slots=True)
class Score:
    """The errors of the answers of one group; shares are of the measured value, None where nothing was answered.

    n, answered: rows, and those that have a prediction.  bias: median signed error.  median_ape, p90_ape: of absolute
    errors.  naive_bias, naive_median_ape: of the bare roofline.  quality: `C` for rows whose source contradicts itself,
    which are in no total; else `AB`.  expected_ape: the median of half the widths of the intervals that hold one
    in two, over the prediction.  inside: the share of answers within the interval stated for nine in ten.
    """

    source: str
    device: str
    model: str
    engine: str
    metric: str
    n: int
    answered: int
    bias: float | None
    median_ape: float | None
    p90_ape: float | None
    naive_bias: float | None
    naive_median_ape: float | None
    quality: str = "AB"
    expected_ape: float | None = None
    inside: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def scores(answers: Iterable[Answer]) -> list[Score]:
    """A score for each source, device, model, engine and metric; then those of quality C; then a total per metric."""
    trusted, doubtful = _parted(answers)
    whole = grouped(trusted, lambda a: (a.row.source, a.row.device, a.row.model, a.row.engine, a.row.metric))
    apart = grouped(doubtful, lambda a: (a.row.source, a.row.device, a.row.model, a.row.engine, a.row.metric), "C")
    return [*whole, *apart, *totals(trusted)]


def totals(answers: Iterable[Answer]) -> list[Score]:
    """A score per metric over everything of quality A and B."""
    return grouped(_parted(answers)[0], lambda a: (ALL, ALL, ALL, ALL, a.row.metric))


def by_source(answers: Iterable[Answer]) -> list[Score]:
    """A score per source and metric, quality C apart."""
    trusted, doubtful = _parted(answers)

    def by(answer: Answer) -> Key:
        return (answer.row.source, ALL, ALL, ALL, answer.row.metric)

    return [*grouped(trusted, by), *grouped(doubtful, by, "C")]


def by_device(answers: Iterable[Answer]) -> list[Score]:
    """A score per device and metric."""
    return grouped(_parted(answers)[0], lambda a: (ALL, a.row.device, ALL, ALL, a.row.metric))


def grouped(answers: Iterable[Answer], by: Callable[[Answer], Key], quality: str = "AB") -> list[Score]:
    """A score for each group that `by` makes, in order of their names."""
    groups: dict[Key, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(by(answer), []).append(answer)
    return [_score(group, groups[group], quality) for group in sorted(groups)]


def _parted(answers: Iterable[Answer]) -> tuple[list[Answer], list[Answer]]:
    trusted: list[Answer] = []
    doubtful: list[Answer] = []
    for answer in answers:
        (doubtful if answer.row.quality == "C" else trusted).append(answer)
    return trusted, doubtful


def _score(group: Key, answers: Sequence[Answer], quality: str) -> Score:
    given = [answer for answer in answers if answer.predicted is not None]
    off = np.array([answer.off for answer in given])
    intervals = [stated(answer) for answer in given]
    inside = [float(each.holds(1 / (1 + answer.off), INSIDE)) for answer, each in zip(given, intervals, strict=True)]
    naive = np.array([answer.naive / answer.row.value - 1 for answer in answers if answer.naive is not None])
    source, device, model, engine, metric = group
    return Score(
        source, device, model, engine, metric,
        n=len(answers),
        answered=len(off),
        bias=_median(off),
        median_ape=_median(np.abs(off)),
        p90_ape=float(np.percentile(np.abs(off), 90)) if len(off) else None,
        naive_bias=_median(naive),
        naive_median_ape=_median(np.abs(naive)),
        quality=quality,
        expected_ape=_median([expected_error(each) for each in intervals]),
        inside=float(np.mean(inside)) if inside else None,
    )  # fmt: skip


def expected_error(interval: Interval) -> float:
    """Half the width of the interval that holds one in two, as a share of the prediction."""
    low, high = interval.bounds(1.0, 0.5)
    return (high - low) / 2


def _median(values: Any) -> float | None:
    return float(np.median(values)) if len(values) else None
