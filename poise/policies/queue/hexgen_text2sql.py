"""HexGen-Text2SQL's order in an engine: the step whose share of its query's deadline is nearest to its end.

Paper: "HexGen-Text2SQL" (arXiv 2505.05286) and its code (Hexgen-Flow). A step's own deadline is the time that its query
has left when it arrives, times t(step)/Σ t(steps that are left); its urgency t − (deadline − waited), the most urgent
first. All waiting steps age equally, so differences of urgency do not change with time, and the order is that of

    arrived_at + deadline − t

Parameters: `slo_s`, 52.95 s there, from the arrival of a query to its last answer. `seconds`: t by stage, and `left`: Σ
t of a stage and all after it, by stage; without them every step may use all the time that its query has left. Late
queries are ordered by their lateness.
"""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.request import RequestView
from poise.core.units import ps


@dataclass(slots=True)
class HexgenText2sql:
    """The most urgent step first. slo_s: of a query.  seconds, left: of a stage, and of it and what follows."""

    slo_s: float = 52.95
    seconds: dict[int, float] | None = None
    left: dict[int, float] | None = None

    def __post_init__(self) -> None:
        if self.slo_s <= 0:
            raise ValueError(f"slo_s {self.slo_s} is no time to answer in; give more than 0")
        if (self.seconds is None) != (self.left is None):
            raise ValueError("seconds and left belong together; give both by stage, or neither")
        left = self.left or {}
        wrong = [stage for stage, each in (self.seconds or {}).items() if not 0 < each <= left.get(stage, 0)]
        if wrong:
            raise ValueError(f"stage {wrong[0]}: seconds must be above 0 and at most left, which counts the stage too")

    def queue(self, request: RequestView) -> int:
        """When it should begin at the latest."""
        took = (self.seconds or {}).get(request.stage, 0.0)
        share = took / (self.left or {})[request.stage] if took else 1.0
        budget = request.begun_at + ps(self.slo_s) - request.arrived_at
        return request.arrived_at + round(budget * share) - ps(took)
