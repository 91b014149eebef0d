"""Prefix extents protected from eviction for a while: the KV of sessions that are expected back."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

from poise.core.engine.kv_pool import KvPool
from poise.core.engine.runs import Run
from poise.core.units import NEVER


class Pin:
    """Extents held for a session (-1: none) until it returns or the pin expires.

    place: among the pins released when room is needed, the least first; None is by expiry.
    """

    __slots__ = ("nodes", "place", "session")

    def __init__(self, session: int, nodes: list[Run], place: Any) -> None:
        self.session = session
        self.nodes = nodes
        self.place = place


class Pins:
    """The pins of one replica, the first to expire first; a session has one at a time.

    heap: the pins with their expiry; empty when there is none, which is all that the hot path checks.
    """

    __slots__ = ("_by_session", "_count", "_placed", "_pool", "heap")

    def __init__(self, pool: KvPool) -> None:
        self._pool = pool
        self.heap: list[tuple[int, int, Pin]] = []
        self._by_session: dict[int, Pin] = {}
        self._count = 0
        self._placed = False

    @property
    def next_at(self) -> int:
        """When the next pin expires."""
        return self.heap[0][0] if self.heap else NEVER

    def add(self, session: int, nodes: list[Run], until: int, place: Any = None) -> None:
        """Hold `nodes`, already counted as in use, until the instant `until`."""
        self.release(session)
        pin = Pin(session, nodes, place)
        if session >= 0:
            self._by_session[session] = pin
        if place is not None:
            self._placed = True
        self._push(pin, until)

    def hold(self, session: int) -> bool:
        """A request of the session waits: its pin no longer expires; returns whether there is one."""
        pin = self._by_session.get(session)
        if pin is None:
            return False
        self._forget(pin)
        self._push(pin, NEVER)
        return True

    def release(self, session: int) -> None:
        """The session has returned (or ended): its request holds its own blocks."""
        pin = self._by_session.get(session)
        if pin is not None:
            self._forget(pin)
            self._drop(pin)

    def drop_first(self) -> None:
        """Release the pin that expires first."""
        self._drop(heappop(self.heap)[2])

    def give_way(self) -> None:
        """Room is needed: release the pin of the least place, or where none has a place the first to expire."""
        if not self._placed:
            self.drop_first()
            return
        pin = min(self.heap, key=lambda entry: (entry[2].place is None, entry[2].place, entry[1]))[2]
        self._forget(pin)
        self._drop(pin)

    def _push(self, pin: Pin, until: int) -> None:
        self._count += 1
        heappush(self.heap, (until, self._count, pin))

    def _forget(self, pin: Pin) -> None:
        """Remove a pin from the heap: one that never expires would stay for ever."""
        self.heap[:] = [entry for entry in self.heap if entry[2] is not pin]
        heapify(self.heap)

    def _drop(self, pin: Pin) -> None:
        self._pool.drop(pin.nodes)
        pin.nodes = []
        if self._by_session.get(pin.session) is pin:
            del self._by_session[pin.session]
