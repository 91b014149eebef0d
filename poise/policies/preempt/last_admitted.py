"""Preempt the request admitted last, as vLLM does: it loses the least work.

With `swap` its KV goes to host memory and comes back (vLLM v0's swapping); otherwise it is computed again, prompt and
output so far together (the only mode of vLLM v1).
"""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.policy import Victim
from poise.core.view import LaneView


@dataclass(slots=True)
class LastAdmitted:
    """Take the newest prompt under way, else the newest decode. swap: keep its KV in host memory if there is room."""

    swap: bool = False

    def preempt(self, lane: LaneView) -> Victim:
        """The request that was admitted last."""
        newest = lane.prefilling[-1] if lane.prefilling else lane.newest()
        return Victim(newest.id, self.swap)
