"""A metric that takes time from where it is measured to where it is read."""

from __future__ import annotations

from collections import deque


class Late:
    """A metric's samples, which are seen `delay` picoseconds after they were taken."""

    __slots__ = ("_samples", "delay")

    def __init__(self, delay: int) -> None:
        self.delay = delay
        self._samples: deque[tuple[int, float]] = deque()

    def seen(self, now: int, value: float) -> float | None:
        """Take a sample of `value` at `now`; the latest one that is seen then, None before the first."""
        self._samples.append((now, value))
        while len(self._samples) > 1 and self._samples[1][0] <= now - self.delay:
            self._samples.popleft()
        at, found = self._samples[0]
        return found if at <= now - self.delay else None
