"""The belief about the adapters (LoRA) of a replica: from its reports, and from what was sent there since."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

REMEMBERED: Final = 1000
"""Adapters remembered of a replica whose number of slots is unknown."""


class ReplicaAdapters:
    """One replica's adapters; it is the `AdaptersView` of routers.

    slots: adapters whose requests run there at once, 0 for no limit or an unknown one.
    """

    __slots__ = ("_recent", "_reported", "_running", "_sent", "_waiting", "slots")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._sent: dict[int, int] = {}  # own requests in flight, by adapter in the order of its first one
        self._reported: tuple[Collection[int], Collection[int]] = (), ()
        self._recent: dict[int, None] = {}  # least recently used first
        self._running: Collection[int] | None = None
        self._waiting: Collection[int] = ()

    @property
    def running(self) -> Collection[int]:
        """Adapters of the requests that run: those reported, and those sent while slots last."""
        if self._running is None:
            self._divide()
        return self._running or ()

    @property
    def waiting(self) -> Collection[int]:
        """Other adapters, of the requests that wait for a slot."""
        if self._running is None:
            self._divide()
        return self._waiting

    @property
    def resident(self) -> Collection[int]:
        """Adapters believed to lie on the device: the most recently used ones, as many as it has slots."""
        return self._recent.keys()

    def _divide(self) -> None:
        running, queued = self._reported
        found = dict.fromkeys(running)
        waits = []
        for adapter in (*self._sent, *queued):
            if adapter in found:
                continue
            if adapter in self._sent and (not self.slots or len(found) < self.slots):
                found[adapter] = None
            elif adapter not in waits:
                waits.append(adapter)
        self._running, self._waiting = found.keys(), waits

    # Written by State ------------------------------------------------------------------------------------------------

    def send(self, adapter: int, counts: bool) -> None:
        """A request with this adapter goes there.  counts: whether it counts before a report shows it."""
        self._use(adapter)
        if counts:
            self._sent[adapter] = self._sent.get(adapter, 0) + 1
            self._running = None

    def end(self, adapter: int) -> None:
        """A request with this adapter has left."""
        left = self._sent.get(adapter, 0) - 1
        if left > 0:
            self._sent[adapter] = left
        elif not left:
            del self._sent[adapter]
        self._running = None

    def report(self, running: Iterable[int], waiting: Iterable[int]) -> None:
        """The replica's own word: whose requests run, and whose wait."""
        self._reported = tuple(running), tuple(waiting)
        for adapter in self._reported[0]:
            self._use(adapter)
        self._running = None

    def forget(self) -> None:
        """The replica is lost."""
        self._sent.clear()
        self._recent.clear()
        self._reported = (), ()
        self._running = None

    def _use(self, adapter: int) -> None:
        self._recent.pop(adapter, None)
        self._recent[adapter] = None
        if len(self._recent) > (self.slots or REMEMBERED):
            del self._recent[next(iter(self._recent))]
