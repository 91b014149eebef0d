"""SAGA's agent fair share in an engine: the program that is furthest behind the pace of its deadline goes first.

Paper: "SAGA" (arXiv 2605.00528), known from notes on it and on a reproduction. A program i has demanded W_i work,
was served S_i, and has a deadline; its urgency is the rate at which it must be served from now on,

    urgency_i = (W_i − S_i) / (deadline_i − t)

and the most urgent is admitted first. A program that keeps pace keeps its initial urgency, one that falls behind
becomes more urgent.

Work is prompt and output tokens, cached ones too, of the program's requests in this engine, where its router keeps it.
W is the mean demand of programs (`demand`; the paper predicts it from its execution graph), and at least `least`
of it counts as left, so that a program that exceeds it is still served. Deadlines are `slo_s` after the program began
(ours: 300 s); an overdue one goes before all others, the longest overdue first. A request without a session is a
program by itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from poise.core.request import RequestView
from poise.core.units import ps

PROGRAMS = 100_000
"""The most programs tracked; the one that began first is dropped first."""


@dataclass(slots=True)
class Saga:
    """The most urgent program first. demand: tokens of a program.  slo_s: of a program.  least: of its demand."""

    demand: float = 500_000.0
    slo_s: float = 300.0
    least: float = 0.1
    _served: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _deadlines: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.demand <= 0 or self.slo_s <= 0 or not 0 < self.least <= 1:
            raise ValueError("demand and slo_s must be above 0, least above 0 and at most 1")

    def queue(self, request: RequestView) -> int:
        """Equal keys within a program, so that arrival decides."""
        return 0

    def flow(self, request: RequestView) -> int:
        """Its program."""
        return request.session if request.session >= 0 else -1 - request.id

    def rank(self, flow: Any, ahead: Sequence[RequestView], now: int) -> tuple[bool, float]:
        """Whether it has time left, then its urgency, or how long it is overdue."""
        left = self._deadlines[flow] - now
        if left <= 0:
            return False, float(left)
        served = self._served[flow] + sum([request.prompt_tokens for request in ahead])
        return True, -max(self.demand - served, self.least * self.demand) / left

    def joined(self, request: RequestView, waiting: Sequence[Hashable]) -> None:
        """Record its deadline."""
        flow = self.flow(request)
        self._served.setdefault(flow, 0)
        self._deadlines[flow] = request.begun_at + ps(self.slo_s)
        if len(self._served) > PROGRAMS:
            self._forget(waiting)

    def charge(self, request: RequestView, prompt_tokens: int, output_tokens: int) -> None:
        """Count its service."""
        flow = self.flow(request)
        if flow in self._served:
            self._served[flow] += prompt_tokens + output_tokens

    def _forget(self, waiting: Sequence[Hashable]) -> None:
        """Drop the program that was seen first and does not wait."""
        kept = set(waiting)
        first = next(flow for flow in self._served if flow not in kept)
        del self._served[first], self._deadlines[first]
