"""A figure, or the difference of two, with its confidence interval: a value, half of the interval, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poise.report.seeds import CONFIDENCE, half_width, mean, t_quantile

TOO_SHORT = "too short to say"
EXACT = "there is no chance in it"


@dataclass(frozen=True, slots=True)
class Interval:
    """`value` ± `half` at 95 % confidence; where `half` is None, `why` gives the reason.

    error: the standard error from which `half` was computed, where there is one.
    """

    value: float | None
    half: float | None = None
    why: str = ""
    error: float | None = None

    @property
    def low(self) -> float | None:
        """The lower end, None where there is no interval."""
        return None if self.value is None or self.half is None else self.value - self.half

    @property
    def high(self) -> float | None:
        """The upper end, None where there is no interval."""
        return None if self.value is None or self.half is None else self.value + self.half

    @property
    def apart(self) -> bool:
        """Whether 0 is outside the interval: the sign of the value is significant."""
        return self.value is not None and self.half is not None and abs(self.value) > self.half

    @property
    def longer(self) -> float | None:
        """The factor on seeds or length that would put 0 outside if the value stayed: widths fall as 1/√n."""
        if self.value is None or self.half is None or not self.value:
            return None
        times = self.half / self.value
        return max(times * times, 1.0)


def over_seeds(values: Sequence[float | None], confidence: float = CONFIDENCE) -> Interval:
    """The t-interval around the mean of independent seeds; a seed without a value leaves none to the mean."""
    known = [value for value in values if value is not None]
    if not values or len(known) < len(values):
        return Interval(None, None, "a seed has no such figure" if values else "there is no seed")
    if len(known) < 2:
        return Interval(known[0], None, "one seed: an interval needs two or more")
    half = half_width(known, confidence)
    return Interval(mean(known), half, error=half / t_quantile(len(known) - 1, confidence))
