"""Load that is decided while it runs: which requests arrive, and when, as others end.

A task graph says beforehand which request waits for which. A director also decides by what has happened: a loop that
serves one answer at a time, a commit that is refused and tried again, a plan that is changed half way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

WAKE: Final = -1
"""In place of a row: the director is woken at that instant."""

Sends = Iterable[tuple[int, int]]
"""Rows, or `WAKE`, each with an instant in picoseconds, which is not past."""


class Director(Protocol):
    """Decides when the rows of one run arrive; it sees ends, not replicas, and is made anew for each run."""

    def begin(self) -> Sends:
        """Return what is sent first."""

    def ended(self, row: int, now: int, finished: bool) -> Sends:
        """Return what is sent since a request has ended, served to its end or not."""

    def woken(self, now: int) -> Sends:
        """Return what is sent at an instant that it asked for."""

    def spare(self) -> Iterable[int]:
        """Return the rows, kept ready in case, that their programs turned out not to need."""

    def counts(self) -> Mapping[str, float]:
        """Return what it has counted, for the report."""


class Undirected:
    """What a director has that is never woken, keeps nothing ready and counts nothing."""

    def woken(self, now: int) -> Sends:
        """Nothing is sent."""
        return ()

    def spare(self) -> Iterable[int]:
        """No row."""
        return ()

    def counts(self) -> Mapping[str, float]:
        """Nothing."""
        return {}
