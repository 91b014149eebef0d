"""An engine's own clock: the real clock times a speed, which can be stopped, and one timer for the next due instant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from poise.core.units import NEVER, SECOND
from poise.live import clock


class Pace:
    """Calls `due(now)` at the instant given to `wake`; instants are picoseconds since the start.

    speed: engine seconds per real second.
    """

    def __init__(self, due: Callable[[int], None], speed: float = 1.0) -> None:
        self.due = due
        self.speed = speed
        self._loop = asyncio.get_running_loop()
        self._began_at = clock.now()
        self._then = 0
        self._frozen = False
        self._wake_at = NEVER
        self._timer: asyncio.TimerHandle | None = None

    def now(self) -> int:
        """The current instant."""
        if self._frozen:
            return self._then
        return self._then + int((clock.now() - self._began_at) * self.speed)

    def wake(self, at: int) -> None:
        """Be called at `at`, and not before (`NEVER`: not at all)."""
        if at == self._wake_at and self._timer is not None:
            return
        self._wake_at = at
        self._arm()

    def freeze(self) -> None:
        """Stop the clock; nothing is due."""
        self._then = self.now()
        self._frozen = True
        self._cancel()

    def thaw(self) -> None:
        """Restart the clock where it stopped."""
        if self._frozen:
            self._frozen = False
            self._began_at = clock.now()
            self._arm()

    def stop(self) -> None:
        """Cancel the timer."""
        self._wake_at = NEVER
        self._cancel()

    def _arm(self) -> None:
        self._cancel()
        if self._wake_at < NEVER and not self._frozen:
            delay = max(0, self._wake_at - self.now()) / (SECOND * self.speed)
            self._timer = self._loop.call_later(delay, self._fire)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        now = self.now()
        if now < self._wake_at:  # loops round to their own grain, which may be a little early
            self._arm()
        else:
            self._wake_at = NEVER
            self.due(now)
