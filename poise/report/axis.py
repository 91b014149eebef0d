"""Chart axes: map values to positions, and choose the ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from poise.report.wording import Kind, write


@dataclass(frozen=True, slots=True)
class Axis:
    """A straight or logarithmic scale from `low` to `high` laid over the places `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    kind: Kind = "number"

    def place(self, value: float) -> float:
        """Position of a value; values at or below zero are at the start of a logarithmic axis."""
        if self.log:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Round values within the scale, with their text."""
        values = _log_ticks(self.low, self.high) if self.log else _straight_ticks(self.low, self.high)
        if self.kind == "count":
            values = [value for value in values if abs(value - round(value)) < 1e-9]
        return [(value, write(value, self.kind)) for value in values]


def fit(
    values: Sequence[float], start: float, end: float, *,
    log: bool = False, kind: Kind = "number", zero: bool = True, tight: bool = False,
) -> Axis:  # fmt: skip
    """An axis that holds all `values`: a straight one begins at 0 (shares end at 1), a logarithmic one fits closely.

    zero: False lets a straight axis begin near the lowest value.  tight: it ends at the highest one, without a margin.
    """
    known = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    low, high = (min(known), max(known)) if known else (1.0, 1.0)
    if log:
        if high / low < 2:  # too flat to read: open it to a factor of four around its middle
            middle = math.sqrt(low * high)
            low, high = middle / 2, middle * 2
        return Axis(low / 1.05, high * 1.05, start, end, True, kind)
    if kind == "share":
        return Axis(0.0, max(high, 1.0), start, end, False, kind)
    if not zero and low > 0:
        margin = 0.04 * (high - low) or low / 2
        return Axis(low - margin, high + margin, start, end, False, kind)
    return Axis(min(low, 0.0), high * (1.0 if tight else 1.05) if high > 0 else 1.0, start, end, False, kind)


def _straight_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, at most `most` or so."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [count * step for count in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, every second or third of them over many decades, with round values between them over few."""
    decades = math.log10(high / low)
    if decades < 0.5:
        return [value for value in _straight_ticks(low, high) if value > 0]
    factors = (1, 2, 3, 5, 7) if decades < 1 else (1, 2, 5) if decades < 2 else (1, 3) if decades < 3 else (1,)
    stride = max(math.ceil(decades / 6), 1)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [factor * 10.0**power for power in powers if power % stride == 0 for factor in factors]
    return [value for value in values if low <= value <= high]
