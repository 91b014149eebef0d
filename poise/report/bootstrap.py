"""Confidence interval of a figure of one run: a moving-block bootstrap whose blocks grow until the width settles.

A run is divided into equal time bins. A resample concatenates blocks of consecutive bins, drawn with replacement, up
to the length of the run (Künsch 1989); a block that reaches the end wraps around to the start (Politis and Romano
1992), so that all bins have equal weight. Blocks that are too short break the correlation between neighbouring bins
and give too small a spread; the spread grows with the block length until blocks are longer than the correlation time.
The remaining bias is corrected from the growth at the last doubling (lugsail: Vats and Flegal 2022): blocks of L bins
underestimate the variance by a share that falls as 1/L, so V(2L) + (V(2L) − V(L)) has no such bias.
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
from poise.report.intervals import TOO_SHORT, Interval
from poise.report.seeds import CONFIDENCE, t_quantile

Floats = NDArray[np.floating[Any]]
Path = tuple[str, ...]
"""The keys under which a figure is found in a result."""

RESAMPLES = 300
"""Resamples of every length of block; the spread they give is good to 4 %."""

LEAST_BLOCKS, FEWEST = 8, 4
"""Blocks that a run must contain for the width to settle, and the number of blocks used where no width settles."""

SETTLED = 0.1
"""A width has settled when blocks of twice the length widen it by less than this share."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure under every resample, and how many independent pieces of evidence support it (besides the blocks)."""

    values: Floats
    pieces: float = math.inf

    @property
    def spread(self) -> float:
        """The standard error; infinite where some resample has no such figure (NaN)."""
        return float(self.values.std(ddof=1)) if np.isfinite(self.values).all() else math.inf


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard error of a figure, its degrees of freedom, and the bins of a block from which it was taken."""

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
    """The spread of every figure of `evaluate`, at the length of block where it settles or else from `FEWEST` blocks.

    A percentile rests on as many pieces as there are independent excursions beyond it, which may be far fewer than
    blocks. None where there is one piece or less, too few bins, or a resample that has no such figure.
    """
    tried = lengths(bins)
    if not tried:
        return {}
    found: dict[Path, Spread] = {}
    before = evaluate(weights(bins, tried[0]))
    for length in (*tried[1:], 2 * tried[-1]):
        now = evaluate(weights(bins, length))
        last = bins // length == FEWEST
        for path in now.keys() - found.keys():
            one, two = before[path].spread, now[path].spread
            settled = two <= one * (1 + SETTLED) and not last
            freedom = min(bins // length, now[path].pieces if two else math.inf) - 1
            if (settled or last) and math.isfinite(one + two) and freedom >= 1:
                found[path] = Spread(_grown(one, two), int(freedom), length)
        if len(found) == len(now):
            break
        before = now
    return {path: found.get(path) for path in now}


def _grown(one: float, two: float) -> float:
    """The standard error of endless blocks, from those of blocks of some length and of twice that."""
    low, high = sorted((one, two))
    return math.sqrt(2 * high * high - low * low)


def interval(value: float | None, spread: Spread | None, confidence: float = CONFIDENCE) -> Interval:
    """The interval around `value`; says that the run is too short where the spread has not settled."""
    if value is None:
        return Interval(None, None, "there is no such figure")
    if spread is None:
        return Interval(value, None, TOO_SHORT)
    return Interval(value, t_quantile(spread.freedom, confidence) * spread.error, error=spread.error)


def minus(one: Sample, other: Sample) -> Sample:
    """The difference of two figures, paired by block; its pieces by Welch and Satterthwaite, as if unpaired."""
    variances = [sample.spread**2 for sample in (one, other)]
    doubt = sum(v**2 / max(sample.pieces - 1, 1e-9) for v, sample in zip(variances, (one, other), strict=True))
    pieces = 1 + sum(variances) ** 2 / doubt if doubt else math.inf
    return Sample(one.values - other.values, pieces)


def average(samples: Sequence[Sample]) -> Sample:
    """The mean of a figure over runs that share their time, which rests on no more pieces than the poorest of them."""
    return Sample(np.mean([each.values for each in samples], axis=0), min(each.pieces for each in samples))
