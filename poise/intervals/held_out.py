"""How often stated intervals hold on rows whose source, model or device the calibration left out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from math import log
from random import Random
from typing import NamedTuple

import numpy as np

from poise.intervals.alike import COUNTS
from poise.intervals.calibration import Calibration
from poise.intervals.fit import HELD_OUT, Evidence, Seen, by_figure, folds
from poise.intervals.interval import Interval
from poise.intervals.own import ALIKE, Found, Own, deployment, narrowed, stays

STATED = (0.8, 0.9)
"""The confidences that are checked."""

OWN = (1, 3, 10)
"""How many rows of one's own narrow an interval, where that is checked."""

DRAWS, FURTHER = 6, 3
"""How often own rows are drawn from a deployment, and how many others are then looked at."""


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


class OwnShare(NamedTuple):
    """How often intervals held that `own` rows of the deployment had narrowed: the shares at `STATED`.

    deployments: those with more rows than these.  stays: the part of the spread that is left.
    """

    figure: str
    own: int
    deployments: int
    held: tuple[float, ...]
    stays: float


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


def shares(held: Sequence[Held], group: Callable[[Held], str], *, alike: bool = False) -> list[Share]:
    """The shares by group and by what was left out.

    alike: every source, model and device together counts as one, however many rows it has: rows of one sweep hold or
    fail together, and a few sweeps have most rows.
    """
    groups: dict[tuple[str, str], list[Held]] = {}
    for each in held:
        groups.setdefault((group(each), each.by), []).append(each)
    return [_share(name, by, some, alike) for (name, by), some in sorted(groups.items())]


def _share(name: str, by: str, some: Sequence[Held], alike: bool) -> Share:
    counts = Counter(each.row.cluster for each in some)
    weights = [1 / counts[each.row.cluster] if alike else 1.0 for each in some]
    held = tuple(float(np.average([each.holds(level) for each in some], weights=weights)) for level in STATED)
    return Share(name, by, len(some), held, float(np.median([each.interval.width for each in some])))


def own_shares(held: Sequence[Held], calibration: Calibration) -> list[OwnShare]:
    """The shares by figure and number of own rows, drawn from the deployment; its source was left out of the fit."""
    groups: dict[str, dict[Hashable, list[Held]]] = defaultdict(lambda: defaultdict(list))
    for each in held:
        if each.by == "source":
            of = deployment(each.row.conditions)
            groups[of.figure][each.row.source, of].append(each)
    return [
        _own_share(figure, [some for some in deployments.values() if len(some) > own], own, calibration)
        for figure, deployments in groups.items()
        for own in OWN
        if ALIKE in calibration.own.get(figure, {}) and any(len(some) > own for some in deployments.values())
    ]


def _own_share(figure: str, deployments: Sequence[Sequence[Held]], own: int, calibration: Calibration) -> OwnShare:
    draw = Random(own)
    found = [
        np.mean([_narrowed_holds(draw.sample(some, min(len(some), own + FURTHER)), own, calibration)
                 for _ in range(DRAWS)], axis=0)
        for some in deployments
    ]  # fmt: skip
    held = np.average(found, axis=0, weights=[len(some) ** COUNTS for some in deployments])
    return OwnShare(figure, own, len(found), tuple(held.tolist()), stays(calibration.own[figure][ALIKE], own))


def _narrowed_holds(drawn: Sequence[Held], own: int, calibration: Calibration) -> list[float]:
    """The shares at `STATED` of all rows but the first `own`, which narrow the intervals."""
    of = drawn[0].row.conditions
    off = sum(each.row.log - log(each.interval.factor(0.5)) for each in drawn[:own]) / own
    known = Own((Found(deployment(of), own, of.slower * off),))
    further = [
        each._replace(interval=narrowed(each.interval, each.row.conditions, known, calibration))
        for each in drawn[own:]
    ]  # fmt: skip
    return [float(np.mean([each.holds(level) for each in further])) for level in STATED]
