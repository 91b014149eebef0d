"""Weighted round robin over tenants: one request each in turn, as often as the tenant's weight says.

Rule: start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) with requests of size 1: a request starts at the
later of the round that is served now and the end of its tenant's last one, and lasts 1/weight rounds; the least start
goes first. With equal weights it is the round robin of llm-d's flow control.

It shares turns, not work: a tenant with prompts ten times as long is served ten times the tokens. Use it where requests
are alike, else `virtual_token_counter`. Tenants are separated within a model; requests without one share one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.policies.kit.flow_ledger import check_weights


@dataclass(slots=True)
class WeightedRoundRobin:
    """Tenants in turn. weights: turns in a round by tenant, 1 for those not named."""

    weights: dict[int, float] | None = None
    _ends: dict[Any, float] = field(default_factory=dict, init=False, repr=False)
    _round: dict[int, float] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_weights(self.weights)

    def flow(self, request: RequestView) -> Hashable:
        """Its tenant's, among those of its model."""
        return request.model, request.tenant

    def key(self, request: RequestView) -> int:
        """All alike, so that arrival decides."""
        return 0

    def order(self, flow: Any, cluster: ClusterView) -> float:
        """The round in which its next request starts."""
        return max(self._ends.get(flow, 0.0), self._round.get(flow[0], 0.0))

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """Its tenant's turn is over."""
        flow = self.flow(request)
        start = self._round[request.model] = self.order(flow, cluster)
        self._ends[flow] = start + 1 / (self.weights or {}).get(request.tenant, 1.0)
