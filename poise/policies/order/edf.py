"""Earliest deadline first: the request whose first token is due soonest goes first.

Rule: Liu and Layland, Journal of the ACM 20(1), 1973 (deadline-driven scheduling); llm-d's flow control offers it as
`edf-ordering-policy`. A request's deadline is its own `deadline_at`; one without is due `ttft_s` after it arrived.

Parameter: `ttft_s`, 5 s by default (ours; llm-d sorts requests without a deadline behind all others, where they may
starve). No request starves here: one without a deadline is overtaken only by what is due within `ttft_s` of its
arrival. Requests that cannot be in time any more keep their place; an admission may reject them (`early_reject`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from poise.core.request import RequestView
from poise.core.units import ps
from poise.core.view import ClusterView


@dataclass(slots=True)
class Edf:
    """The earliest deadline first. ttft_s: seconds from arrival that requests without a deadline may take."""

    ttft_s: float = 5.0

    def __post_init__(self) -> None:
        if self.ttft_s < 0:
            raise ValueError(f"ttft_s {self.ttft_s} lies before arrival; give seconds of 0 or more")

    def flow(self, request: RequestView) -> Hashable:
        """One queue for all."""
        return 0

    def key(self, request: RequestView) -> int:
        """The instant at which it is due."""
        return request.deadline_at or request.arrived_at + ps(self.ttft_s)

    def order(self, flow: Hashable, cluster: ClusterView) -> int:
        """There is but one flow."""
        return 0

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """Nothing to remember."""
