"""The event queue: a heap of entries, each an instant, a kind and a number.

At one instant entries go by kind, then by number (a replica, a request, or a counter), so a run
repeats itself whatever the order in which they were entered.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from heapq import heapify, heappush
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
"""Kinds of entries, in their order at one instant."""

Entry = tuple[int, int, int]
"""An instant in picoseconds, a kind, and a number (a replica, a request, or a counter)."""

END: Final[Entry] = (NEVER, 0, 0)
"""An entry after all others."""


class Agenda:
    """The clock and the queue of entries. now: picoseconds from the start of the run."""

    __slots__ = ("_count", "_laters", "heap", "now")

    def __init__(self) -> None:
        self.now = 0
        self.heap: list[Entry] = []
        self._laters: dict[int, Callable[[], None]] = {}
        self._count = 0

    def push(self, at: int, kind: int, number: int = 0) -> None:
        """Add an entry of `kind` at `at`."""
        heappush(self.heap, (at, kind, number))

    def later(self, at: int, kind: int, call: Callable[[], None]) -> None:
        """Call `call` at `at`; calls of one instant and kind go in the order in which they were added."""
        self._count += 1
        self._laters[self._count] = call
        self.push(at, kind, self._count)

    def hasten(self, kind: int, numbers: Container[int], by: int) -> None:
        """Let the entries of a kind whose number is among `numbers` be `by` earlier."""
        heap = self.heap
        for place, (at, what, number) in enumerate(heap):
            if what == kind and number in numbers:
                heap[place] = (at - by, what, number)
        heapify(heap)

    def drop(self, kind: int, numbers: Container[int]) -> None:
        """Remove the entries of a kind whose number is among `numbers`."""
        self.heap[:] = [entry for entry in self.heap if entry[1] != kind or entry[2] not in numbers]
        heapify(self.heap)

    def do_later(self, number: int) -> None:
        """Run the call of an entry."""
        self._laters.pop(number)()
