"""The requests of other gateways: they count in the belief, in limits and in fair orders as the gateway's own do.

Each gateway reports what it admits, sends and ends (`Control.outbox`), and the others get it as `PeerSent` and
`PeerEnded`. A P/D pair counts at both halves until it ends, and the copies of a hedged request are not reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from poise.core.control.flight import InFlight
from poise.core.control.in_flight import InFlightTable
from poise.core.control.policy_exchange import hooked
from poise.core.control.state import DRAINING, SERVING, State
from poise.core.event import Finished, PeerEnded, PeerSent
from poise.core.request import RequestView

SHARED: Final = ("order", "admission")
"""Slots whose policies are called for the requests of other gateways: they share service and room among tenants."""
HOOKS: Final = ("entered", "joined", "taken", "observe", "ended")
"""The hooks that are called; `observe` with the end of a request alone."""


class PeerRequests:
    """Requests of other gateways by id, and their contribution to `state` and to the policies of `SHARED`."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.in_flight = InFlightTable(state, False)
        self.known: dict[int, tuple[int, RequestView]] = {}
        """By id: the gateway and the request."""
        self.waiting: set[int] = set()
        self._hooks: Mapping[str, list[Any]] = {}

    def settle(self, own: Mapping[str, Any], tracks: bool) -> None:
        """Call the policies of `own` from now on.  tracks: whether some policy reads `flights`."""
        self._hooks = {hook: hooked(own, hook, SHARED) for hook in HOOKS}
        self.in_flight.track(tracks)

    def sent(self, event: PeerSent) -> None:
        """A request waits at its gateway, or was sent to a replica."""
        request, state = event.request, self.state
        if request.id not in self.known:
            self.known[request.id] = event.gateway, request
            for policy in self._hooks["entered"]:
                policy.entered(request, state)
            self._wait(request)
        elif event.replica < 0 and request.id not in self.waiting:
            self._leave(request.id)
            self._wait(request)
        if event.replica < 0:
            return
        if request.id in self.waiting:
            self.waiting.discard(request.id)
            for policy in self._hooks["taken"]:
                policy.taken(request, event.replica, state)
        self._leave(request.id)
        decode = event.replica if event.decode < 0 else event.decode
        if {state.status[event.replica], state.status[decode]} <= {SERVING, DRAINING}:
            self.in_flight.send(InFlight(request, event.replica, decode, (), state.now))

    def ended(self, event: PeerEnded) -> bool:
        """A request ended; whether it was known."""
        known = self.known.pop(event.request, None)
        if known is None:
            return False
        _, request = known
        self.waiting.discard(request.id)
        self._leave(request.id)
        for policy in self._hooks["observe"]:
            policy.observe(Finished(event.at, request.id, event.output_tokens))
        for policy in self._hooks["ended"]:
            policy.ended(request)
        return True

    def lost(self, gateway: int) -> None:
        """A gateway is gone."""
        gone = [request for request, (owner, _) in self.known.items() if owner == gateway]
        for request in gone:
            self.ended(PeerEnded(self.state.now, gateway, request))

    def replica_gone(self, replica: int) -> None:
        """A replica is gone: what ran there counts nowhere until its gateway sends it again."""
        for flight in list(self.in_flight.flights.values()):
            if replica in (flight.replica, flight.decode):
                self.in_flight.end(flight.request.id)

    def teach(self, policy: Any, own: Mapping[str, Any]) -> None:
        """Notify a new policy, which is to act among `own`, of all requests."""
        joins, takes = (any(policy is each for each in hooked(own, hook, SHARED)) for hook in ("joined", "taken"))
        for _, request in self.known.values():
            if joins:
                policy.joined(request)
            flight = self.in_flight.flights.get(request.id)
            if takes and flight is not None:
                policy.taken(request, flight.replica, self.state)

    def _wait(self, request: RequestView) -> None:
        self.waiting.add(request.id)
        for policy in self._hooks["joined"]:
            policy.joined(request)

    def _leave(self, request: int) -> None:
        """A request is at no replica now."""
        if request in self.in_flight.flights:
            self.in_flight.end(request)
