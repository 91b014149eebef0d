"""One power threshold: above it devices run at fixed lower clocks, well below it at their full ones.

What POLCA (Patel et al., arXiv 2308.12908, 2023) is compared with: one threshold at which devices of low priority are
capped, or all of them. There is no further step: while the power stays above the threshold, nothing else is commanded.

Parameters: `at` 0.89 and `release` 0.05 of the budget, those of POLCA's second threshold; `low` and `high`, parts of
the full clock: 1,110 of the 1,410 MHz of an A100 for low priority, and 1 for high priority, which is then never capped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.policies.cap.polca import FULL_MHZ, Clocks


@dataclass(slots=True)
class OneThreshold:
    """Caps while the power is above one threshold. See the module for the rule and its parameters."""

    at: float = 0.89
    release: float = 0.05
    low: float = 1110 / FULL_MHZ
    high: float = 1.0
    _capped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.release < self.at <= 1:
            raise ValueError(f"threshold {self.at} with a release of {self.release}; give release < at ≤ 1")
        if not 0 < self.low <= 1 or not 0 < self.high <= 1:
            raise ValueError(f"clocks {self.low}, {self.high} are no parts of one; give each above 0, at most 1")

    def cap(self, power: float, now_s: float) -> Clocks:
        """The clocks to command, from the power of the row as a part of its budget, at every reading."""
        if power > self.at:
            self._capped = True
        elif power < self.at - self.release:
            self._capped = False
        return Clocks(self.low, self.high) if self._capped else Clocks()
