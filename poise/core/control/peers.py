"""The requests of other gateways: they count in the belief, in limits and in fair orders as the gateway's own do.

Each gateway reports what it admits, sends and ends (`Control.outbox`), and the others get it as `PeerSent` and
`PeerEnded`. A P/D pair counts at both halves until it ends, and the copies of a hedged request are not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from poise.core.control.flight import InFlight
from poise.core.control.in_flight import InFlightTable
from poise.core.control.policy_exchange import hooked
from poise.core.control.state import DRAINING, SERVING, State
from poise.core.event import Finished, PeerEnded, PeerSent
from poise.core.fast_tuple import made
from poise.core.request import RequestView

SHARED: Final = ("order", "admission")
"""Slots whose policies are called for the requests of other gateways: they share service and room among tenants."""

Hooks = list[Callable[..., None]]


class PeerRequests:
    """Requests of other gateways by id, and their contribution to `state` and to the policies of `SHARED`.

    Of the policies' hooks, `entered`, `joined`, `taken` and `ended` are called, and `observe` with the end of a request
    alone.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.in_flight = InFlightTable(state, False)
        self.known: dict[int, tuple[int, RequestView]] = {}
        """By id: the gateway and the request."""
        self.waiting: set[int] = set()
        self._entered: Hooks = []
        self._joined: Hooks = []
        self._taken: Hooks = []
        self._observe: Hooks = []
        self._ended: Hooks = []

    def settle(self, own: Mapping[str, Any], tracks: bool) -> None:
        """Call the policies of `own` from now on.  tracks: whether some policy reads `flights`."""
        self._entered = [policy.entered for policy in hooked(own, "entered", SHARED)]
        self._joined = [policy.joined for policy in hooked(own, "joined", SHARED)]
        self._taken = [policy.taken for policy in hooked(own, "taken", SHARED)]
        self._observe = [policy.observe for policy in hooked(own, "observe", SHARED)]
        self._ended = [policy.ended for policy in hooked(own, "ended", SHARED)]
        self.in_flight.track(tracks)

    def sent(self, event: PeerSent) -> None:
        """A request waits at its gateway, or was sent to a replica."""
        _, gateway, request, replica, decode = event
        number = request.id
        if number not in self.known:
            self.known[number] = gateway, request
            for entered in self._entered:
                entered(request, self.state)
            self._wait(request)
        elif replica < 0 and number not in self.waiting:
            self._leave(number)
            self._wait(request)
        if replica >= 0:
            self._go(request, replica, replica if decode < 0 else decode)

    def _go(self, request: RequestView, replica: int, decode: int) -> None:
        """A request is at a replica now, or at a pair."""
        state, number = self.state, request.id
        if number in self.waiting:
            self.waiting.discard(number)
            for taken in self._taken:
                taken(request, replica, state)
        self._leave(number)
        if _present(state.status[replica]) and _present(state.status[decode]):
            self.in_flight.send(InFlight(request, replica, decode, (), state.now))

    def ended(self, event: PeerEnded) -> bool:
        """A request ended; whether it was known."""
        known = self.known.pop(event.request, None)
        if known is None:
            return False
        request = known[1]
        self.waiting.discard(request.id)
        self._leave(request.id)
        if self._observe:
            finished = made(Finished, (event.at, request.id, event.output_tokens))
            for observe in self._observe:
                observe(finished)
        for ended in self._ended:
            ended(request)
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
        for joined in self._joined:
            joined(request)

    def _leave(self, request: int) -> None:
        """A request is at no replica now."""
        if request in self.in_flight.flights:
            self.in_flight.end(request)


def _present(status: int) -> bool:
    """Whether something counts at a replica of this status."""
    return status in (SERVING, DRAINING)
