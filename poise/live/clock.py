"""The monotonic clock in the unit of the core."""

from __future__ import annotations

from time import monotonic_ns


def now() -> int:
    """Picoseconds since an arbitrary start; never goes back."""
    return monotonic_ns() * 1000
