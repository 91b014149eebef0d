"""A step of prompt work that can be interrupted between two layers, its boundaries in closed form."""

from __future__ import annotations

from collections.abc import Callable

from poise.core.errors import PolicyError
from poise.core.estimate import Chunk, Piece, StepShape
from poise.core.fast_tuple import made


class LayerPass:
    """Chunks that pass the layers [`layer`, `last`), and the instants at which they are between two of them.

    The step costs what the estimator says of all its layers at once, and up to a boundary what it says of the layers
    before it. Work that goes on at once from where it was looked at is the same pass: `origin` is the layer at which
    that began, `spent` the picoseconds since then, so that looking costs nothing.
    """

    __slots__ = ("_chunks", "_estimate", "_layers", "_share", "duration", "ids", "last", "layer", "origin", "spent")

    def __init__(
        self, layers: int, estimate: Callable[[StepShape], Piece], ids: tuple[int, ...], chunks: tuple[Chunk, ...],
        share: float, duration: int, swapping: int, before: LayerPass | None,
    ) -> None:  # fmt: skip
        """Begin the chunks of the requests `ids`, which take `duration` picoseconds, `swapping` of them at first.

        layers: of the model.  estimate: a step's time, at the speed that the device has when the pass begins.
        before: the pass that was left at this instant.
        """
        ranges = {(chunk.first_layer, chunk.last_layer or layers) for chunk in chunks}
        if len(ranges) > 1:
            raise PolicyError(f"a batch to be left between layers mixes the layer ranges {sorted(ranges)}; give one")
        self._layers, self._share, self.ids = layers, share, ids
        self._chunks = chunks
        self._estimate = estimate
        ((self.layer, self.last),) = ranges
        self.duration = duration
        self.origin, self.spent = self.layer, -swapping
        if before is not None and before.goes_on(self):
            self.origin, self.spent = before.origin, before.spent + before.duration
            self.duration = self.until(self.last)

    def goes_on(self, other: LayerPass) -> bool:
        """Whether `other` is the rest of this one, as wide and as fast."""
        counts = [(chunk.tokens, chunk.context) for chunk in self._chunks]
        return (
            (self.ids, self.last, self._share) == (other.ids, other.layer, other._share)
            and other.spent == 0
            and self._estimate == other._estimate
            and counts == [(chunk.tokens, chunk.context) for chunk in other._chunks]
        )

    def until(self, layer: int) -> int:
        """Picoseconds from the pass's start until its chunks have passed the layers before `layer`."""
        last = 0 if self.origin == 0 and layer == self._layers else layer
        origin = self.origin
        chunks = tuple([made(Chunk, (tokens, context, origin, last)) for tokens, context, *_ in self._chunks])
        piece: Piece = self._estimate(made(StepShape, (0, chunks, self._share)))
        return piece.base - self.spent

    def leave(self, elapsed: int, passed: bool) -> int:
        """End the pass at its next boundary; the picoseconds from its begin until then.

        passed: a boundary exactly `elapsed` picoseconds after the begin lies behind.
        """
        layer, duration = self.next_after(elapsed - 1 + passed)
        if layer < self.last:
            self.last, self.duration = layer, duration
        return self.duration

    def next_after(self, elapsed: int) -> tuple[int, int]:
        """The first boundary more than `elapsed` picoseconds after the begin: its layer and its picoseconds.

        Of several boundaries at one instant, where layers cost nothing, it is the last. Searched between two boundaries
        by their times, which are nearly on a line.
        """
        low, high, at = self.layer + 1, self.last, self.duration
        if elapsed >= at:
            return high, at
        behind, since = self.layer, 0
        while low < high:
            guess = behind + 1 + (elapsed - since) * (high - behind) // max(at - since, 1)
            guess = min(max(guess, low), high - 1)
            time = self.until(guess)
            if time > elapsed:
                high, at = guess, time
            else:
                low, behind, since = guess + 1, guess, time
        while low < self.last and self.until(low + 1) == at:
            low += 1
        return low, at
