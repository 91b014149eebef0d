"""How far time may have moved a figure of one run: a moving-block bootstrap whose blocks grow until the width settles.

A run is cut into equal bins of time. A resample puts blocks of consecutive bins, drawn with replacement, one after the
other to the length of the run (Künsch 1989); blocks go on at the start where the end cuts them (Politis and Romano
1992), so that all bins weigh alike. Blocks that are too short break up what belongs together and the spread comes out
too small; it grows with the blocks until they are longer than what one moment tells of the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.chance import Chance
from poise.report.intervals import Interval
from poise.report.seeds import CONFIDENCE, t_quantile

Floats = NDArray[np.floating[Any]]
Path = tuple[str, ...]
"""Where a figure stands in a result."""

RESAMPLES = 300
"""Resamples of every length of block; the spread they give is good to 4 %."""

LEAST_BLOCKS = 8
"""Blocks of which a run must hold so many, or nothing is said."""

SETTLED = 0.1
"""A width has settled when blocks of twice the length widen it by less than this share."""

TOO_SHORT = "too short to say"


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure under every resample, and how many independent pieces of evidence it rests on (beside the blocks)."""

    values: Floats
    pieces: float = math.inf

    @property
    def spread(self) -> float:
        """The standard error."""
        return float(self.values.std(ddof=1))


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard error of a figure, its degrees of freedom, and the bins of a block at which it had settled."""

    error: float
    freedom: int
    length: int


Evaluate = Callable[[Floats], Mapping[Path, Sample]]
"""Figures under resamples, given how often each bin is in each of them: an array [resamples, bins]."""


@lru_cache(maxsize=16)
def weights(bins: int, length: int) -> Floats:
    """How often each bin is in each resample of blocks of `length` bins: [resamples, bins]; rows sum to about `bins`.

    The draws are keyed, so all policies, figures and runs meet the same ones.
    """
    blocks = math.ceil(bins / length)
    starts = np.array(_draws(RESAMPLES * blocks, bins)).reshape(RESAMPLES, blocks)
    changes = np.zeros((RESAMPLES, 2 * bins + 1))
    rows = np.arange(RESAMPLES)[:, None]
    np.add.at(changes, (rows, starts), 1)
    np.add.at(changes, (rows, starts + length), -1)
    covered = np.cumsum(changes, axis=1)
    return covered[:, :bins] + covered[:, bins : 2 * bins]


def _draws(count: int, below: int) -> list[int]:
    """`count` whole numbers from 0 to `below` − 1, each equally likely."""
    chance, drawn = Chance(0), []
    for key in range(count):
        chance.key = key
        drawn.append(chance.bits("blocks") * below >> 64)
    return drawn


def lengths(bins: int) -> list[int]:
    """The lengths of block to try: 1, 2, 4, … bins, while a run of `bins` holds enough of them."""
    return [1 << power for power in range(bins.bit_length()) if bins >> power >= LEAST_BLOCKS]


def settle(evaluate: Evaluate, bins: int) -> dict[Path, Spread | None]:
    """The spread of every figure of `evaluate` at the length of block where it settles; None where none does.

    Of the two lengths between which a figure no longer grows the longer one's is taken, or the wider where it shrank.
    A percentile rests on as many pieces as there are independent excursions beyond it, which may be far fewer than
    blocks; with one there is no telling.
    """
    found: dict[Path, Spread | None] = {}
    before: Mapping[Path, Sample] = {}
    for length in lengths(bins):
        now = evaluate(weights(bins, length))
        for path, sample in now.items():
            last = before[path].spread if path in before else math.nan
            if found.get(path) is None and sample.spread <= last * (1 + SETTLED):
                freedom = min(bins // length, sample.pieces if sample.spread else math.inf) - 1
                if freedom >= 1:
                    found[path] = Spread(max(sample.spread, last), int(freedom), length)
        if now and all(found.get(path) is not None for path in now):
            break
        before = now
    return {path: found.get(path) for path in before} | found


def interval(value: float | None, spread: Spread | None, confidence: float = CONFIDENCE) -> Interval:
    """The interval around `value`; says that the run is too short where the spread has not settled."""
    if value is None:
        return Interval(None, None, "there is no such figure")
    if spread is None:
        return Interval(value, None, TOO_SHORT)
    return Interval(value, t_quantile(spread.freedom, confidence) * spread.error)


def minus(one: Sample, other: Sample) -> Sample:
    """The difference of two figures, paired by block; its pieces by Welch and Satterthwaite, as if unpaired."""
    variances = [sample.spread**2 for sample in (one, other)]
    doubt = sum(v**2 / max(sample.pieces - 1, 1e-9) for v, sample in zip(variances, (one, other), strict=True))
    pieces = 1 + sum(variances) ** 2 / doubt if doubt else math.inf
    return Sample(one.values - other.values, pieces)


def average(samples: Sequence[Sample]) -> Sample:
    """The mean of a figure over runs that share their time, which rests on no more pieces than the poorest of them."""
    return Sample(np.mean([each.values for each in samples], axis=0), min(each.pieces for each in samples))
