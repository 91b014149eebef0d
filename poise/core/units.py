"""Time as integer picoseconds inside `core` and `sim`; float seconds only at the edges.

Integers make the fast path and the step-by-step reference equal to the last bit: breaking a run of
steps in two cannot change a sum. 64 bits of picoseconds hold 106 days.
"""

from __future__ import annotations

from typing import Final

SECOND: Final = 1_000_000_000_000
"""One second in picoseconds."""

NEVER: Final = 1 << 62
"""An instant later than any other (53 days in picoseconds)."""


def ps(seconds: float) -> int:
    """Seconds to the nearest whole picosecond."""
    return round(seconds * SECOND)


def seconds(instant: int) -> float:
    """Picoseconds to float seconds."""
    return instant / SECOND
