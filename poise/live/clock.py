"""The monotonic clock in the unit of the core."""

from __future__ import annotations

import time


def now() -> int:
    """Picoseconds since an arbitrary start; never goes back."""
    return time.monotonic_ns() * 1000
