"""The interval of a prediction: factors between which the measured value lies, in logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import NamedTuple

LEVELS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5,
    0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99,
)  # fmt: skip
"""Shares of errors whose quantiles a calibration keeps."""

CONFIDENCE = 0.8
"""Share of measured values that an interval holds, where no other is given."""


class Bounds(NamedTuple):
    """The ends of an interval, in the unit of the prediction."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Interval:
    """How a measured value is distributed about its prediction.

    logs: the logarithms of measured over predicted at `LEVELS`, rising.  unseen: what of the conditions no
    calibration row had.
    """

    logs: tuple[float, ...]
    unseen: tuple[str, ...] = ()

    def factor(self, share: float) -> float:
        """The factor on the prediction below which `share` of measured values lie."""
        return exp(_through(share, LEVELS, self.logs))

    def bounds(self, predicted: float, confidence: float = CONFIDENCE) -> Bounds:
        """The ends of the central interval that holds `confidence` of measured values."""
        rest = (1 - confidence) / 2
        return Bounds(predicted * self.factor(rest), predicted * self.factor(1 - rest))

    def holds(self, factor: float, confidence: float = CONFIDENCE) -> bool:
        """Whether a measured value of `factor` times the prediction lies in the interval of `confidence`."""
        low, high = self.bounds(1.0, confidence)
        return low <= factor <= high

    def below(self, factor: float) -> float:
        """The share of measured values that lie below `factor` times the prediction."""
        found = _through(log(factor), self.logs, LEVELS) if factor > 0 else 0.0
        return min(max(found, 0.001), 0.999)

    @property
    def width(self) -> float:
        """The upper over the lower end of the interval of `CONFIDENCE`."""
        low, high = self.bounds(1.0)
        return high / low

    def narrowed(self, shift: float, scale: float) -> Interval:
        """The interval with its middle moved by `shift` in logarithms and its width about it times `scale`."""
        middle = _through(0.5, LEVELS, self.logs)
        return Interval(tuple(middle + shift + scale * (each - middle) for each in self.logs), self.unseen)


def _through(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """The value at `x` of the line through points, which continues beyond the first and the last."""
    at = 1
    while at < len(xs) - 1 and x > xs[at]:
        at += 1
    low, high = xs[at - 1], xs[at]
    if high <= low:
        return ys[at]
    return ys[at - 1] + (ys[at] - ys[at - 1]) * (x - low) / (high - low)
