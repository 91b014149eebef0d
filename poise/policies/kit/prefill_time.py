"""A batcher's predictions of prompt times: by the cost model, with an error, or one constant for all.

A policy that uses predictions should keep its gain when they are wrong. So each of them can be given
the truth, a log-normal error (`sigma`, the standard deviation of its logarithm, drawn for each request), or
one time for every prompt (`constant_s`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import cos, exp, log, pi, sqrt

from poise.core.action import NONE
from poise.core.chance import Chance
from poise.core.estimate import Chunk
from poise.core.fast_tuple import made
from poise.core.units import ps
from poise.core.view import LaneView, SequenceView

REMEMBERED = 1 << 16
"""Requests whose prompt's time is remembered."""


@dataclass(slots=True)
class PrefillTime:
    """Picoseconds of prompts alone on the lane. sigma: of the error.  constant_s: of every prompt, 0: by cost."""

    sigma: float = 0.0
    constant_s: float = 0.0
    _whole: dict[tuple[int, int], int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _left: dict[int, tuple[tuple[int, int, int], int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _error: dict[int, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.sigma < 0 or self.constant_s < 0:
            raise ValueError(f"sigma {self.sigma} and constant_s {self.constant_s} must be 0 or more")

    def whole(self, lane: LaneView, sequence: SequenceView) -> int:
        """Picoseconds of the request's whole prompt without a cache; remembered."""
        need = sequence.need
        key = sequence.id, need
        time = self._whole.get(key)
        if time is None:
            if len(self._whole) >= REMEMBERED:
                self._whole.clear()
            time = self._whole[key] = self._time(lane, sequence, Chunk(need, 0), 1.0)
        return time

    def left(self, lane: LaneView, sequence: SequenceView, tokens: int) -> int:
        """Picoseconds of its last `tokens` tokens, in the layers that they have not passed."""
        need, layer = sequence.need, sequence.layer
        if tokens >= need and not layer:
            return self.whole(lane, sequence)
        last = self._left.get(sequence.id)
        if last is not None and last[0] == (need, tokens, layer):
            return last[1]
        if len(self._left) >= REMEMBERED:
            self._left.clear()
        rest = made(Chunk, (tokens, need - tokens, layer, lane.model_layers if layer else 0))
        time = self._time(lane, sequence, rest, tokens / need)
        self._left[sequence.id] = (need, tokens, layer), time
        return time

    def _time(self, lane: LaneView, sequence: SequenceView, chunk: Chunk, part: float) -> int:
        if self.constant_s:
            return ps(self.constant_s * part)
        time = lane.predict((chunk,), NONE)
        return round(time * self._factor(sequence.id)) if self.sigma else time

    def _factor(self, request: int) -> float:
        """The error of a request's predictions: always the same one."""
        factor = self._error.get(request)
        if factor is None:
            if len(self._error) >= REMEMBERED:
                self._error.clear()
            chance = Chance(0, request)
            z = sqrt(-2 * log(1 - chance.draw("foresight"))) * cos(2 * pi * chance.draw("foresight angle"))
            factor = self._error[request] = exp(self.sigma * z)
        return factor
