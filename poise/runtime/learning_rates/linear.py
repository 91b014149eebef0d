"""Linear decay, which the theory of last iterates gives for gradients of constant size (see refined.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Linear:
    """1 - t/T, down to `end`."""

    end: float = 0.0

    def at(self, done: float) -> float:
        """The factor on the peak."""
        return self.end + (1 - self.end) * (1 - done)
