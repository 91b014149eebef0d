"""The attempts of a request that some replica refused: how often it was sent, and which replicas are excluded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from poise.core.event import Refused
from poise.core.units import SECOND

FIRST_WAIT: Final = SECOND // 20
LONGEST_WAIT: Final = SECOND
"""Picoseconds until unreachable replicas are tried again; each wait is twice the last one."""


class Attempts:
    """The attempts of one request.

    sent: times that a replica may have read it.  until: no replica is tried before this instant, in picoseconds.
    """

    __slots__ = ("_left_out", "_unreached", "_waits", "sent", "until")

    def __init__(self) -> None:
        self.sent = 0
        self.until = 0
        self._left_out: set[int] = set()
        self._unreached = False
        self._waits = 0

    def refused(self, event: Refused) -> None:
        """A replica refused it. One whose connection was closed under it may be tried again at once."""
        self.sent += event.sent
        if event.sent and event.same:
            return
        self._left_out.add(event.replica)
        self._unreached |= event.same

    def left(self, able: Iterable[int]) -> list[int]:
        """The able replicas that it may be sent to now."""
        return [replica for replica in able if replica not in self._left_out]

    @property
    def unreached(self) -> bool:
        """Whether a replica could not be reached since the last wait: it may be reachable a moment later."""
        return self._unreached

    def wait(self, now: int) -> int:
        """Allow all replicas again, but not before the instant that this returns (picoseconds)."""
        self.until = now + min(FIRST_WAIT << self._waits, LONGEST_WAIT)
        self._waits = min(self._waits + 1, 10)
        self._left_out.clear()
        self._unreached = False
        return self.until
