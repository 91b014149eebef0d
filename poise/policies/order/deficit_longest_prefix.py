"""DLPM: the longest cached prefix first, among tenants that have not used up their quantum.

Paper: Cao et al., "Locality-aware Fair Scheduling in LLM Serving", 2025 (arXiv 2501.14312). Each tenant has a deficit
counter. A tenant with a positive one is eligible; of the eligible tenants' requests the one with the longest prefix in
a cache goes first. It is charged w_e for each prompt token that is not cached and w_q for each output token, so the
counter may end below 0. When no waiting tenant is eligible all are given further quanta, until one is.

Parameters: `input_weight` 1 and `output_weight` 2 as in VTC; `quantum`, 16,384 (ours): the larger, the longer one
tenant's prefixes stay in the caches, and the looser the bound; `weights` multiply it for tenants by number.

It differs from DLPM in its place: a gateway sees no decode step, so output is charged as predicted when a request is
sent and corrected when it ends; the cache is that of any able replica, as believed, and the router chooses which (the
paper's D²LPM gives each worker its own quantum). A tenant with nothing waiting pays off its debt with the others'
quanta and saves up nothing. While more than `most` requests wait prefixes are not compared, and arrival decides among
the eligible: comparing takes time, and requests that match no cache should not starve (SGLang stops comparing beyond
128 too).

Bound: with L, P, E and K as in `virtual_token_counter`, the service charged to two tenants of equal weight over any
time in which both wait differs by at most 2·(quantum + w_e·L + w_q·(P + 2·K·E)).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from poise.core.event import Event
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.policies.kit.flow_ledger import Ledger, check_weights


@dataclass(slots=True)
class DeficitLongestPrefix:
    """Eligible tenants first, then the longest cached prefix, then by arrival.

    quantum: weighted tokens that a tenant is given at a time.  most: waiting requests beyond which prefixes
    are not compared.  weights: shares of tenants by number, 1 for those not named.
    """

    reads_predictions: ClassVar[bool] = True

    quantum: float = 16_384.0
    input_weight: float = 1.0
    output_weight: float = 2.0
    most: int = 128
    weights: dict[int, float] | None = None
    _deficits: dict[Any, float] = field(default_factory=dict, init=False, repr=False)
    _ledger: Ledger = field(default_factory=Ledger, init=False, repr=False, compare=False)
    _compared: dict[int, RequestView] = field(default_factory=dict, init=False, repr=False)
    _beyond: set[int] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.quantum <= 0 or self.most < 1 or self.input_weight < 0 or self.output_weight < 0:
            raise ValueError("quantum and most must be above 0, input_weight and output_weight not negative")
        check_weights(self.weights)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("requests", "cached_tokens")

    def flow(self, request: RequestView) -> Hashable:
        """Alone where its prefix may be compared, else with the others of its tenant and model."""
        return request.model, request.tenant, request.id if request.id in self._compared else -1

    def key(self, request: RequestView) -> int:
        """Equal keys, so that arrival decides."""
        return 0

    def order(self, flow: Any, cluster: ClusterView) -> tuple[bool, int]:
        """Whether its tenant must wait for a quantum, then by the prefix that the replica with the least to do has."""
        model, tenant, number = flow
        if self._deficits[model, tenant] <= 0:
            return True, 0
        if self._beyond or not self._compared[number].ids:
            return False, 0
        request, requests = self._compared[number], cluster.requests
        cached, able = cluster.cached_tokens(request), cluster.able(request)
        least = min([requests[replica] for replica in able], default=0)
        return False, -max([cached[replica] for replica in able if requests[replica] == least], default=0)

    def joined(self, request: RequestView) -> None:
        """Record its prompt and tenant."""
        tenant = request.model, request.tenant
        if len(self._compared) < self.most:
            self._compared[request.id] = request
        else:
            self._beyond.add(request.id)
        self._ledger.join(request, tenant)
        self._deficits.setdefault(tenant, 0.0)
        self._refill(request.model)

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """Charge the uncached prompt and the predicted output."""
        self._leave(request)
        if self._ledger.send(request):
            cached = cluster.cached_tokens(request)[replica] if request.ids else 0
            work = self.input_weight * (request.prompt_tokens - cached)
            self._charge(request, work + self.output_weight * request.predicted_tokens)

    def observe(self, event: Event) -> None:
        """Correct the charge to the actual output."""
        settled = self._ledger.settle(event)
        if settled is not None:
            self._charge(settled[0], self.output_weight * settled[1])

    def ended(self, request: RequestView) -> None:
        """Forget it."""
        self._leave(request)
        self._ledger.end(request.id)
        self._refill(request.model)

    def _leave(self, request: RequestView) -> None:
        self._compared.pop(request.id, None)
        self._beyond.discard(request.id)

    def _charge(self, request: RequestView, service: float) -> None:
        self._deficits[request.model, request.tenant] -= service
        self._refill(request.model)

    def _refill(self, model: int) -> None:
        """Give quanta until a waiting tenant is eligible, where there are waiting ones."""
        deficits, waiting = self._deficits, [flow for flow in self._ledger.waiting if flow[0] == model]
        if not waiting or any(deficits[flow] > 0 for flow in waiting):
            return
        rounds = min(-deficits[flow] // self._quantum(flow) + 1 for flow in waiting)
        for flow, deficit in deficits.items():
            if flow[0] == model and deficit <= 0:
                paid = deficit + rounds * self._quantum(flow)
                deficits[flow] = paid if flow in waiting else min(paid, 0.0)

    def _quantum(self, flow: tuple[int, int]) -> float:
        return self.quantum * (self.weights or {}).get(flow[1], 1.0)
