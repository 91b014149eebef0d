"""Continuum's KV time-to-live: keep a session's KV while its tool runs, for as long as that is worth the memory.

Paper: "Continuum: Efficient and Robust Multi-Turn LLM Agent Scheduling with KV Cache Time-to-Live" (arXiv 2511.02230).
At the end of a turn that calls tool f the KV is pinned for

    τ* = argmax over τ of  P_f(τ)·(T̄·η + reload) − τ,   τ among the past durations of f and 0

P_f: the share of past durations up to τ.  T̄: mean queueing time of a session without its KV.  η: see
`programs`.  reload: seconds to compute the whole context again, by the engine's cost model (the paper fits a square).
The memory of the pin appears on both sides and cancels.

Parameters: `cold` 100 records, as in the paper: below it for all tools the KV stays `cold_ttl_s` (2 s in the released
preview), below it for one tool all tools are taken together. When room is needed the session that began last loses its
pin first, so that the oldest continues and pins never stall an engine. A last turn frees its KV.

It differs in that only the last 1,000 durations of a tool count, and in that KV offloaded to host memory is not priced.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.action import NONE
from poise.core.estimate import Chunk
from poise.core.request import NO_TOOL, RequestView
from poise.core.units import ps
from poise.core.view import LaneView, SequenceView
from poise.policies.kit.programs import Durations, Programs


@dataclass(slots=True)
class Continuum:
    """Pin for the time that is worth most. cold_ttl_s: before `cold` records.  cold: records needed."""

    cold_ttl_s: float = 2.0
    cold: int = 100
    _programs: Programs = field(default_factory=Programs, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.cold_ttl_s < 0 or self.cold < 1:
            raise ValueError("cold_ttl_s is 0 or more, and cold 1 or more")

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
        """The time-to-live."""
        if request.session < 0:
            return 0
        programs = self._programs
        if sequence.tool == NO_TOOL:
            programs.turns.complete(request.turn + 1)
            return 0
        programs.tools.leave(request.session, sequence.tool, lane.now)
        if len(programs.tools.all) < self.cold:
            return ps(self.cold_ttl_s)
        reload = lane.predict((Chunk(sequence.need, 0),), NONE)
        return worthwhile(programs.tools.of(sequence.tool, self.cold), programs.benefit(reload))


def worthwhile(durations: Durations, benefit: float) -> int:
    """The time τ, among 0 and past durations, at which the share of them up to τ, times `benefit`, less τ is most."""
    best, ttl = 0.0, 0
    for count, duration in enumerate(durations, 1):
        if benefit - duration <= best:
            break  # no longer time can be worth more, even at probability 1
        worth = count / len(durations) * benefit - duration
        if worth > best:
            best, ttl = worth, duration
    return ttl
