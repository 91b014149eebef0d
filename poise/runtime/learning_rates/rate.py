"""What a learning-rate schedule is: a factor on the peak for each part of a run, and a warm-up before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Rate(Protocol):
    """A schedule over a run of any length."""

    def at(self, done: float) -> float:
        """The factor on the peak, in [0, 1], when the part `done` of the steps is over."""
        ...


@dataclass(frozen=True)
class Constant:
    """The peak throughout."""

    def at(self, done: float) -> float:
        """1."""
        return 1.0


@dataclass(frozen=True)
class Plan:
    """A schedule over `steps` steps, of which the first `warmup` rise in equal parts to the peak."""

    rate: Rate
    steps: int
    warmup: int = 0

    def factor(self, step: int) -> float:
        """The factor on the peak in a step, counted from 0."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        return self.rate.at((step - self.warmup) / max(1, self.steps - self.warmup))
