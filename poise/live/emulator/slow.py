"""An estimator wrapper that multiplies step costs by a factor: a slow engine."""

from __future__ import annotations

from poise.core.estimate import Estimator, Piece, StepShape, Store
from poise.cost.estimator_wrapper import scaled


class Slow:
    """Another estimator's costs, `factor` times as long (1.0: unchanged).

    Lanes cache pieces: after changing the factor of a running replica, call `change`.
    """

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.factor = 1.0

    @property
    def window(self) -> int:
        """Tokens that a sliding-window layer attends to."""
        return self.estimator.window

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`, every part of it times the factor."""
        piece = self.estimator.step(shape)
        return piece if self.factor == 1.0 else scaled(piece, self.factor)

    def kv_bytes(self, tokens: int) -> int:
        """Bytes of KV cache, which the factor does not change."""
        return self.estimator.kv_bytes(tokens)

    def swap(self, kv_bytes: int, runs: int = 0) -> int:
        """Picoseconds to move `kv_bytes` to host memory or back."""
        return round(self.estimator.swap(kv_bytes, runs) * self.factor)

    @property
    def store(self) -> Store | None:
        """The estimator's store of KV, if it has one."""
        return getattr(self.estimator, "store", None)

    def describe(self) -> dict[str, object]:
        """The estimator's coefficients, and the factor."""
        return {**self.estimator.describe(), "slow_factor": self.factor}
