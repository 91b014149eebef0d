"""Deficit round robin over tenants: each has a quantum of work in a round, and keeps the rest for the next.

Rule: Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round Robin" (SIGCOMM 1995). Tenants with requests
waiting form a ring. A visit adds the quantum to the tenant's deficit and sends its requests in turn while the first
costs no more than the deficit, which is taken off; a tenant with nothing waiting any more loses what is left. Here a
visit is a round of a tenant, its requests cost w_p for each prompt token and w_q for each predicted output token, and
the tenant whose first request is affordable in the earliest round goes first, within a round in order of the ring: so
rounds in which no tenant could send are skipped. Output is corrected to the actual one when a request ends; a tenant
keeps what it owes.

Parameters: `quantum`, 4,096 weighted tokens (ours): with one below the largest cost a tenant is passed over for rounds
together, which changes nothing but the grain; `weights` multiply it for tenants by number.

Bound (their theorem 2, with corrections): with C the largest cost of a request and K, E as in `virtual_token_counter`,
the service charged to two tenants of equal weight over any time in which both wait differs by at most quantum + 2·(C +
2·w_q·K·E): rounds of the two differ by at most one, and deficits stay between 0 and C but for corrections.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import ceil
from typing import Any, ClassVar

from poise.core.event import Event
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.policies.kit.flow_ledger import Ledger, check_weights


@dataclass(slots=True)
class Tenant:
    """A tenant in the ring: since `begun`, a round, it has `used` service. turn: its place in the ring.

    waits: arrival, id and cost of what waits, in order.
    """

    begun: int = 0
    used: float = 0.0
    turn: int = 0
    waits: list[tuple[int, int, float]] = field(default_factory=list)


@dataclass(slots=True)
class DeficitRoundRobin:
    """Tenants in turn, each for a quantum of work; within a tenant by arrival.

    quantum: weighted tokens that a tenant may be sent in a round.  weights: shares of tenants by number, 1 for those
    not named. Requests without a tenant share one.
    """

    reads_predictions: ClassVar[bool] = True

    quantum: float = 4096.0
    input_weight: float = 1.0
    output_weight: float = 2.0
    weights: dict[int, float] | None = None
    _tenants: dict[Any, Tenant] = field(default_factory=dict, init=False, repr=False)
    _ledger: Ledger = field(default_factory=Ledger, init=False, repr=False, compare=False)
    _round: dict[int, int] = field(default_factory=dict, init=False, repr=False)
    _turns: int = field(default=0, init=False, repr=False)
    _places: dict[int, tuple[int, int, float]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.quantum > 0:
            raise ValueError(f"quantum {self.quantum} gives no tenant a turn; give weighted tokens above 0, as in 4096")
        if self.input_weight < 0 or self.output_weight < 0:
            raise ValueError("input_weight and output_weight must not be negative; give 0 or more")
        check_weights(self.weights)

    def flow(self, request: RequestView) -> Hashable:
        """Its tenant's, among those of its model."""
        return request.model, request.tenant

    def key(self, request: RequestView) -> int:
        """Equal keys, so that arrival decides."""
        return 0

    def order(self, flow: Any, cluster: ClusterView) -> tuple[int, int]:
        """The round in which its first request is affordable, and its place in the ring."""
        return self._affordable(flow), self._tenants[flow].turn

    def joined(self, request: RequestView) -> None:
        """Append its tenant to the ring if it had nothing waiting; it keeps no earlier credit."""
        flow: Any = self.flow(request)
        tenant = self._tenants.setdefault(flow, Tenant())
        if self._ledger.join(request, flow):
            owed = tenant.used - (self._current(flow) - tenant.begun) * self._quantum(flow)
            tenant.begun, tenant.used = self._current(flow), max(owed, 0.0)
            self._turns += 1
            tenant.turn = self._turns
        cost = self.input_weight * request.prompt_tokens + self.output_weight * request.predicted_tokens
        place = self._places[request.id] = request.arrived_at, request.id, cost
        insort(tenant.waits, place)

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """Take its cost off the deficit; the ring has reached its tenant."""
        flow: Any = self.flow(request)
        self._round[request.model] = max(self._current(flow), self._affordable(flow) - 1)
        cost = self._leave(request)
        if self._ledger.send(request):
            self._tenants[flow].used += cost

    def observe(self, event: Event) -> None:
        """Correct the charge to the actual output."""
        settled = self._ledger.settle(event)
        if settled is not None:
            self._tenants[self.flow(settled[0])].used += self.output_weight * settled[1]

    def ended(self, request: RequestView) -> None:
        """Forget it."""
        self._leave(request)
        self._ledger.end(request.id)

    def _leave(self, request: RequestView) -> float:
        """Its cost, taken out of what waits; 0 where it does not."""
        place = self._places.pop(request.id, None)
        if place is None:
            return 0.0
        waits = self._tenants[self.flow(request)].waits
        del waits[bisect_left(waits, place)]
        return place[2]

    def _affordable(self, flow: Any) -> int:
        """The round in which the first request of a tenant is affordable."""
        tenant = self._tenants[flow]
        return tenant.begun + max(ceil((tenant.used + tenant.waits[0][2]) / self._quantum(flow)), 1)

    def _current(self, flow: tuple[int, int]) -> int:
        """The last round that is over for all tenants of its model."""
        return self._round.get(flow[0], 0)

    def _quantum(self, flow: tuple[int, int]) -> float:
        return self.quantum * (self.weights or {}).get(flow[1], 1.0)
