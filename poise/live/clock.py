"""The monotonic clock in the unit of the core."""

from __future__ import annotations

from time import monotonic_ns
from typing import Final

_START: Final = monotonic_ns() - 10**9
"""One second before this process first read the clock: machines run longer than the 53 days of `NEVER`."""


def now() -> int:
    """Picoseconds since this process began; never decreases, and is never 0."""
    return (monotonic_ns() - _START) * 1000
