"""How often stated intervals hold on rows whose source, model or device the calibration left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from poise.intervals.fit import HELD_OUT, Evidence, Seen, by_figure, folds
from poise.intervals.interval import Interval

STATED = (0.8, 0.9)
"""The confidences that are checked."""


class Held(NamedTuple):
    """A row and the interval that the others state for it, its `by` left out."""

    row: Seen
    by: str
    interval: Interval

    def holds(self, confidence: float) -> bool:
        """Whether the measured value lies within."""
        return self.interval.holds(float(np.exp(self.row.log)), confidence)


class Share(NamedTuple):
    """How often intervals held in a group: rows, and the shares at `STATED`; width: the median upper over lower end."""

    group: str
    by: str
    rows: int
    held: tuple[float, ...]
    width: float


def held_out(rows: Sequence[Seen]) -> list[Held]:
    """Each row under intervals (of time) fitted without its source, without its model, and without its device."""
    return [each for own in by_figure(rows).values() for each in _held_out(own)]


def _held_out(rows: Sequence[Seen]) -> Iterator[Held]:
    evidence, every = Evidence(rows), np.ones(len(rows), dtype=bool)
    for name, by in HELD_OUT.items():
        for out in folds(rows, by, every):
            left = np.flatnonzero(out)
            logs = evidence.logs_of(evidence.fit(~out), left)
            for at, own in zip(left.tolist(), logs.tolist(), strict=True):
                yield Held(rows[at], name, Interval(tuple(own)))


def shares(held: Sequence[Held], group: Callable[[Held], str]) -> list[Share]:
    """The shares by group and by what was left out."""
    groups: dict[tuple[str, str], list[Held]] = {}
    for each in held:
        groups.setdefault((group(each), each.by), []).append(each)
    return [
        Share(
            name, by, len(some),
            tuple(float(np.mean([each.holds(level) for each in some])) for level in STATED),
            float(np.median([each.interval.width for each in some])),
        )
        for (name, by), some in sorted(groups.items())
    ]  # fmt: skip
