"""Prefix extents that must not be evicted for a while: the KV of sessions that are expected back."""

from __future__ import annotations

from heapq import heappop, heappush

from poise.core.kv import KvPool, Node
from poise.core.units import NEVER


class Pin:
    """Extents held for a session (-1: nobody's) until it comes back or the pin's time is over."""

    __slots__ = ("nodes", "session")

    def __init__(self, session: int, nodes: list[Node]) -> None:
        self.session = session
        self.nodes = nodes


class Pins:
    """The pins of one replica, the first to expire first; a session has one at a time.

    heap: the pins with their expiry; empty when there is none, which is all that the hot path asks.
    """

    __slots__ = ("_by_session", "_count", "_pool", "heap")

    def __init__(self, pool: KvPool) -> None:
        self._pool = pool
        self.heap: list[tuple[int, int, Pin]] = []
        self._by_session: dict[int, Pin] = {}
        self._count = 0

    @property
    def next_at(self) -> int:
        """When the next pin expires."""
        return self.heap[0][0] if self.heap else NEVER

    def add(self, session: int, nodes: list[Node], until: int) -> None:
        """Hold `nodes`, already counted as in use, until the instant `until`."""
        self.release(session)
        pin = Pin(session, nodes)
        if session >= 0:
            self._by_session[session] = pin
        self._count += 1
        heappush(self.heap, (until, self._count, pin))

    def release(self, session: int) -> None:
        """The session is back (or gone): what it needs it holds itself."""
        pin = self._by_session.get(session)
        if pin is not None:
            self._drop(pin)

    def drop_first(self) -> None:
        """Let the pin that expires first go."""
        self._drop(heappop(self.heap)[2])

    def _drop(self, pin: Pin) -> None:
        self._pool.drop(pin.nodes)
        pin.nodes = []
        if self._by_session.get(pin.session) is pin:
            del self._by_session[pin.session]
