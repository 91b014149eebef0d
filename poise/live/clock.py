"""The clock of the live side: monotonic, in the integer picoseconds of `core`."""

from __future__ import annotations

from time import monotonic_ns


def now() -> int:
    """This instant in picoseconds; it never goes back and means nothing outside this process."""
    return monotonic_ns() * 1000
