"""Continuum's rule with tools' true durations: an upper bound on the gain from predicting them.

A session's KV is pinned until the tool ends where that is worth it (`programs.benefit`), and not otherwise. With
`sigma` the duration is predicted with a log-normal error, keyed by the request as in `predict/noisy`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import cos, exp, log, pi, sqrt

from poise.core.action import NONE
from poise.core.chance import Chance
from poise.core.errors import PolicyError
from poise.core.estimate import Chunk
from poise.core.request import NO_TOOL, RequestView
from poise.core.view import LaneView, SequenceView
from poise.policies.kit.programs import Programs


@dataclass(slots=True)
class OracleTtl:
    """Pin until the tool ends, where that is worth it. sigma: standard deviation of the error's logarithm."""

    sigma: float = 0.0
    _truth: Callable[[int], int] | None = field(default=None, init=False, repr=False, compare=False)
    _programs: Programs = field(default_factory=Programs, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.sigma < 0:
            raise ValueError(f"sigma {self.sigma} is no spread; give 0 or more")

    def reveal(self, truth: Callable[[int], int]) -> None:
        """Receive the true time until a session returns, by request id."""
        self._truth = truth

    def returned(self, request: RequestView, now: int) -> None:
        """A tool has ended."""
        self._programs.returned(request, now)

    def admitted(self, sequence: SequenceView, now: int) -> None:
        """A request begins to run."""
        self._programs.admitted(sequence, now)

    def gives_way(self, request: RequestView) -> int:
        """Release the session that began last first."""
        return -request.begun_at

    def cache(self, request: RequestView, sequence: SequenceView, lane: LaneView) -> int:
        """The predicted time until the tool ends."""
        if self._truth is None:
            raise PolicyError("oracle_ttl knows what only a simulation knows; take continuum, or fixed_ttl, here")
        if request.session < 0:
            return 0
        away = self._truth(request.id)
        if sequence.tool == NO_TOOL or away < 0:
            self._programs.turns.complete(request.turn + 1)
            return 0
        predicted = round(away * self._error(request.id))
        reload = lane.predict((Chunk(sequence.need, 0),), NONE)
        return predicted + 1 if predicted < self._programs.benefit(reload) else 0

    def _error(self, request: int) -> float:
        if not self.sigma:
            return 1.0
        chance = Chance(0, request)
        z = sqrt(-2 * log(1 - chance.draw("duration"))) * cos(2 * pi * chance.draw("duration angle"))
        return exp(self.sigma * z)
