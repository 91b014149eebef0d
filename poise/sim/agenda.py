"""What happens when: a heap of entries, each an instant, a kind and a number.

At one instant things go by kind, then by number (a replica, a request, or a count of what was asked for), so a run
repeats itself whatever the order in which they were entered.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Final

from poise.core.units import NEVER

FAULT: Final = 0
START: Final = 1
MEASURE: Final = 2
DELIVER: Final = 3
TRANSFER: Final = 4
ARRIVE: Final = 5
TIMEOUT: Final = 6
WAKE: Final = 7
STEP: Final = 8
SAMPLE: Final = 9
"""Kinds of things that happen, in their order at one instant."""

Entry = tuple[int, int, int]
"""An instant in picoseconds, a kind, and a number (a replica, a request, or a count of what was asked for)."""

END: Final[Entry] = (NEVER, 0, 0)
"""An entry behind all others."""


class Agenda:
    """The clock and what is still to come. now: picoseconds from the start of the run."""

    __slots__ = ("_count", "_laters", "heap", "now")

    def __init__(self) -> None:
        self.now = 0
        self.heap: list[Entry] = []
        self._laters: dict[int, Callable[[], None]] = {}
        self._count = 0

    def push(self, at: int, kind: int, number: int = 0) -> None:
        """Enter something of `kind` at `at`."""
        heappush(self.heap, (at, kind, number))

    def later(self, at: int, kind: int, call: Callable[[], None]) -> None:
        """Do `call` at `at`; calls of one instant and kind go in the order in which they were asked for."""
        self._count += 1
        self._laters[self._count] = call
        self.push(at, kind, self._count)

    def do_later(self, number: int) -> None:
        """Its time has come."""
        self._laters.pop(number)()
