"""One timer for the deadlines of many connections."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol

from poise.live.clock import now


class Swept(Protocol):
    """Something that may wait too long."""

    def sweep(self, at: int) -> None:
        """End it if it has waited too long at `at`."""


def period(*limits_s: float) -> float:
    """How often to look, in seconds: an eighth of the shortest limit, between 10 ms and 1 s."""
    return min([1.0, *(max(limit / 8, 0.01) for limit in limits_s if limit)])


class Sweep:
    """Looks at all of `members` once in `period_s`, from `start()` until there are none left."""

    __slots__ = ("_members", "_period_s", "_timer")

    def __init__(self, members: Collection[Swept], period_s: float) -> None:
        self._members = members
        self._period_s = period_s
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look from now on."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._period_s, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        at = now()
        for member in list(self._members):
            member.sweep(at)
        if self._members:
            self.start()


class Wait:
    """Since when something waits: stamped by the sweep, so that beginning to wait costs no look at the clock."""

    __slots__ = ("since",)

    def __init__(self) -> None:
        self.since = 0

    def begin(self) -> None:
        """From now on, or rather from the next sweep on."""
        self.since = 0

    def beyond(self, at: int, limit_s: float) -> bool:
        """Whether it is longer than the limit."""
        if not self.since:
            self.since = at
        return at - self.since > limit_s * 10**12
