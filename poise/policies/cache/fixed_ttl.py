"""Keep the KV of every session that calls a tool for one fixed time: the baseline of adaptive times-to-live.

As the released preview of Continuum (arXiv 2511.02230) does until it has learnt, 2 s; a long time is InferCept's
"preserve" (arXiv 2402.01869). When room is needed the session that began last loses its pin first. Pinned
naively, KV of sessions that have ended is kept as well, and the oldest pin goes first.
"""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.request import NO_TOOL, RequestView
from poise.core.units import ps
from poise.core.view import LaneView, SequenceView


@dataclass(slots=True)
class FixedTtl:
    """Pin for `ttl_s` seconds, unless the session has ended or pins are `naive`."""

    ttl_s: float = 2.0
    naive: bool = False

    def __post_init__(self) -> None:
        if self.ttl_s < 0:
            raise ValueError(f"ttl_s {self.ttl_s} is no duration; give 0 or more")

    def gives_way(self, request: RequestView) -> int:
        """Release the session that began last first; naively all have one place, so the oldest pin goes."""
        return 0 if self.naive else -request.begun_at

    def cache(self, request: RequestView, sequence: SequenceView, lane: LaneView) -> int:
        """The fixed time for all sessions."""
        goes_on = request.session >= 0 and sequence.tool != NO_TOOL
        return ps(self.ttl_s) if goes_on or self.naive else 0
