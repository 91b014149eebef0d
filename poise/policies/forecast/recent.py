"""The mean rate of arrivals over a recent window, the usual forecast of autoscalers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from poise.core.chance import Chance
from poise.core.event import Arrived, Event
from poise.core.units import SECOND, ps


@dataclass(slots=True)
class Recent:
    """The requests of the last `window_s` seconds, per second of them (or of the time since the first one)."""

    window_s: float = 60.0
    _arrivals: deque[int] = field(default_factory=deque, init=False, repr=False, compare=False)
    _since: int = field(default=-1, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.window_s <= 0:
            raise ValueError(f"window_s {self.window_s} is no window; give seconds above 0")

    def observe(self, event: Event) -> None:
        """Count an arrival; a retry of the same request is not counted again."""
        if type(event) is Arrived and not event.attempt:
            if self._since < 0:
                self._since = event.at
            self._arrivals.append(event.at)

    def forecast(self, now: int, until: int, chance: Chance) -> float:
        """The rate so far."""
        window = ps(self.window_s)
        while self._arrivals and self._arrivals[0] <= now - window:
            self._arrivals.popleft()
        passed = min(window, now - self._since) if self._since >= 0 else 0
        return len(self._arrivals) * SECOND / passed if passed else 0.0
