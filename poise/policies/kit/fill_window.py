"""A window and a depth for gathering requests that follow how fast they come."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

GAIN = 0.2
"""The part of a new measurement that counts."""


@dataclass(slots=True)
class FillWindow:
    """Gather until `depth` wait or `window` has passed; both follow what batches had, up to the most of each.

    most, deepest: the longest window in picoseconds, and the largest depth.
    """

    most: int
    deepest: int
    _window: float = field(default=0.0, init=False)
    _depth: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._window, self._depth = float(self.most), float(self.deepest)

    @property
    def window(self) -> int:
        """Picoseconds that the first waits at most."""
        return round(self._window)

    @property
    def depth(self) -> int:
        """Requests that end the wait."""
        return max(1, ceil(self._depth - 0.5))

    def went(self, many: int, waited: int) -> None:
        """A batch of so many went, whose first had waited so long: where fewer come in a window, fewer are awaited."""
        self._depth += GAIN * (min(many, self.deepest) - self._depth)
        self._window += GAIN * (min(waited, self.most) - self._window)
