"""One timer for the deadlines of many connections."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol

from poise.live.clock import now
from poise.live.http.limits import SECOND


class Swept(Protocol):
    """Something with a deadline."""

    def sweep(self, at: int) -> None:
        """End it if its deadline has passed at `at`."""


def period(*limits_s: float) -> float:
    """Period of the sweep in seconds: an eighth of the shortest limit, between 10 ms and 1 s."""
    return min([1.0, *(max(limit / 8, 0.01) for limit in limits_s if limit)])


class DeadlineTimer:
    """Checks all of `members` once in `period_s`, from `start()` to `stop()`."""

    __slots__ = ("_members", "_period_s", "_timer")

    def __init__(self, members: Collection[Swept], period_s: float) -> None:
        self._members = members
        self._period_s = period_s
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the timer."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._period_s, self._look)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        at = now()
        for member in list(self._members):
            member.sweep(at)
        self.start()


class Deadline:
    """A wait whose start is stamped by the sweep, so beginning to wait does not read the clock.

    since: 0 where a wait has begun since the last sweep.
    """

    __slots__ = ("since",)

    def __init__(self) -> None:
        self.since = 0

    def waits(self, at: int, limit_s: float) -> bool:
        """Whether it has waited longer than the limit."""
        if not self.since:
            self.since = at
        return at - self.since > limit_s * SECOND
