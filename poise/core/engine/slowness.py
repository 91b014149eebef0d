"""A slow device: its steps take longer by a factor for a time, and the added time is known afterwards.

A step takes as long as its device says when it begins. So a held batch is cut at its next boundary when the speed
changes, and the closed form goes on with scaled coefficients: fast path and reference stay equal.
"""

from __future__ import annotations

from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.units import NEVER


class Slow:
    """An estimator's steps, `factor` times as long."""

    __slots__ = ("_estimator", "_factor")

    def __init__(self, estimator: Estimator, factor: float) -> None:
        self._estimator = estimator
        self._factor = factor

    def step(self, shape: StepShape) -> Piece:
        """The piece, each of its coefficients scaled."""
        return _scaled(self._estimator.step(shape), self._factor)


def _scaled(piece: Piece, factor: float) -> Piece:
    base, per_kv, per_window, until_kv, then = piece
    base, per_kv, per_window = round(base * factor) or 1, round(per_kv * factor), round(per_window * factor)
    return Piece(base, per_kv, per_window, until_kv, then and _scaled(then, factor))


class Slowdown:
    """A time of slowness, in picoseconds of a replica's busy time."""

    __slots__ = ("factor", "since", "until")

    def __init__(self, since: int, factor: float) -> None:
        self.since = since
        self.until = NEVER
        self.factor = factor


def excess(spells: list[Slowdown], since: int, until: int) -> int:
    """Picoseconds of the busy time from `since` to `until` that the device's usual speed would have saved."""
    lost = 0
    for spell in spells:
        span = min(spell.until, until) - max(spell.since, since)
        if span > 0:
            lost += span - int(span / spell.factor)
    return lost
