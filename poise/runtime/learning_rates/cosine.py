"""Half a cosine (Loshchilov and Hutter, arXiv 1608.03983, equation 5, without restarts)."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi


@dataclass(frozen=True)
class Cosine:
    """(1 + cos(πt/T)) / 2, down to `end`."""

    end: float = 0.0

    def at(self, done: float) -> float:
        """The factor on the peak."""
        return self.end + (1 - self.end) * (1 + cos(pi * done)) / 2
