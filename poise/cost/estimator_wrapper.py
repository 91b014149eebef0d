"""An estimator that wraps another and delegates everything that a subclass does not override."""

from __future__ import annotations

from poise.core.estimate import Estimator, Piece, Sharing, StepShape, Store, after_loss


def scaled(piece: Piece, factor: float) -> Piece:
    """A piece `factor` times as long, and those behind it; each part is rounded once."""
    base, per_kv, per_window = (round(part * factor) for part in piece[:3])
    return Piece(base, per_kv, per_window, piece.until_kv, piece.then and scaled(piece.then, factor))


def longer(piece: Piece, duration: float) -> Piece:
    """A piece and those behind it, lengthened by picoseconds (shortened below 0), and no less than 1."""
    then = None if piece.then is None else longer(piece.then, duration)
    return piece._replace(base=max(piece.base + round(duration), 1), then=then)


class EstimatorWrapper:
    """Answers as `inner` does; a subclass replaces `step`, and adds what it is to `describe`."""

    def __init__(self, inner: Estimator) -> None:
        self.inner = inner

    @property
    def window(self) -> int:
        """Tokens that a sliding-window layer attends to."""
        return self.inner.window

    def step(self, shape: StepShape) -> Piece:
        """The inner piece of `shape`."""
        return self.inner.step(shape)

    def kv_bytes(self, tokens: int) -> int:
        """Bytes of KV of `tokens` tokens."""
        return self.inner.kv_bytes(tokens)

    def swap(self, kv_bytes: int, runs: int = 0) -> int:
        """Picoseconds to move the bytes to or from host memory."""
        return self.inner.swap(kv_bytes, runs)

    @property
    def store(self) -> Store | None:
        """The inner one's store of KV, if it has one."""
        return getattr(self.inner, "store", None)

    @property
    def sharing(self) -> Sharing | None:
        """How lanes slow one another by the inner one's costs, if it says so."""
        return getattr(self.inner, "sharing", None)

    def after_loss(self, lost: int) -> float | None:
        """The inner estimator's slowdown after the loss of devices."""
        return after_loss(self.inner, lost)

    def describe(self) -> dict[str, object]:
        """The inner estimator's description."""
        return self.inner.describe()
