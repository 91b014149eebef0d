"""Evict what is needed last: the optimum, for simulations only, against which eviction rules are measured.

Rule: Bélády, IBM Systems Journal 5(2), 1966 (MIN). An extent's next use is when the session that held it last sends its
next request, as the workload has it, counted from the end of the one before; that of a session that has ended is never.
It is optimal for the given order of requests, where no session shares an extent with another; queueing may still
change that order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from poise.core.errors import PolicyError
from poise.core.request import RequestView
from poise.core.units import NEVER
from poise.core.view import LaneView, SequenceView


@dataclass(slots=True)
class Belady:
    """Pin nothing, and evict the furthest next use first."""

    _truth: Callable[[int], int] | None = field(default=None, init=False, repr=False, compare=False)
    _next: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def reveal(self, truth: Callable[[int], int]) -> None:
        """Receive the true time until a session returns, by request id."""
        self._truth = truth

    def cache(self, request: RequestView, sequence: SequenceView, lane: LaneView) -> int:
        """Record when its session returns; pin nothing."""
        if self._truth is None:
            raise PolicyError("belady knows what only a simulation knows; take saga, or no cache policy, here")
        away = self._truth(request.id)
        if away >= 0 and request.session >= 0:
            self._next[request.session] = lane.now + away
        else:
            self._next.pop(request.session, None)
        return 0

    def rank(self, sequence: SequenceView, extent: int, blocks: int) -> int:
        """Minus the next use, so that the furthest is evicted first; private blocks are never reused."""
        if extent < 0:
            return -NEVER
        return -self._next.get(sequence.request.session, NEVER)
