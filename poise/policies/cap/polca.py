"""POLCA: power oversubscription of a row of servers, kept within its budget by lower clocks at two thresholds.

Patel et al., "POLCA: Power Oversubscription in LLM Cloud Providers", arXiv 2308.12908 (2023), sections 5 and 6. The
power of a row, as a part of its budget, is read every few seconds. Above the first threshold devices of low priority
are locked at their base clock, which costs little. Above the second one they go lower; if the power is still above it
once that has taken effect, those of high priority go a little lower, too. A step is taken back when the power is
`release` below its threshold, so that caps do not swing. Beyond the budget the row's own brake acts, not this policy.

Parameters: `first` 0.80, `second` 0.89 and `release` 0.05 of the budget, the published values for out-of-band commands
of up to 40 s (0.89 times the largest rise that was seen in 40 s, 11.8 %, is 0.995); `low`, `lower` and `high`, parts of
the full clock: 1,275, 1,110 and 1,305 of the 1,410 MHz of an A100; `settle_s` 40, how long to wait until a command has
taken effect. The source publishes only the purpose of `settle_s`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

FULL_MHZ = 1410
"""The highest clock of an A100, which the published ones are parts of."""


class Clocks(NamedTuple):
    """The clocks of devices of low and of high priority, as parts of the full one."""

    low: float = 1.0
    high: float = 1.0


@dataclass(slots=True)
class Polca:
    """Two thresholds, low priority first. See the module for the rule and its parameters."""

    first: float = 0.80
    second: float = 0.89
    release: float = 0.05
    low: float = 1275 / FULL_MHZ
    lower: float = 1110 / FULL_MHZ
    high: float = 1305 / FULL_MHZ
    settle_s: float = 40.0
    _level: int = field(default=0, init=False)
    _since_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.release < self.first <= self.second <= 1:
            raise ValueError(
                f"thresholds {self.first} and {self.second} do not ascend to 1; give release < first < second"
            )
        if not 0 < self.lower <= self.low <= 1 or not 0 < self.high <= 1:
            raise ValueError(f"clocks {self.low}, {self.lower}, {self.high} are no parts of one; give lower ≤ low ≤ 1")

    def cap(self, power: float, now_s: float) -> Clocks:
        """The clocks to command, from the power of the row as a part of its budget, at every reading."""
        level = self._next(power, now_s)
        if level != self._level:
            self._level, self._since_s = level, now_s
        return (Clocks(), Clocks(self.low), Clocks(self.lower), Clocks(self.lower, self.high))[level]

    def _next(self, power: float, now_s: float) -> int:
        """0: no caps, 1: low priority at `low`, 2: at `lower`, 3: high priority at `high`, too."""
        if power > self.second:
            settled = self._level < 2 or now_s - self._since_s > self.settle_s
            return min(max(self._level + settled, 2), 3)
        if power < self.first - self.release:
            return 0
        if power < self.second - self.release:
            return min(self._level, 1) if power <= self.first else 1
        return max(self._level, 1) if power > self.first else self._level
