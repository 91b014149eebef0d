"""The requests in flight: where each was sent, and what that adds to each replica's columns."""

from __future__ import annotations

from typing import Final

from poise.core.control.flight import InFlight
from poise.core.control.state import DRAINING, SERVING, State
from poise.core.request import RequestView

_PRESENT: Final = (SERVING, DRAINING)
"""Where something counts; the counts of a replica were dropped when it left."""


class InFlightTable:
    """Flights by request, and their contribution to `state`.

    tracks: whether some policy reads `flights`, so that they are kept by replica too.
    """

    __slots__ = ("flights", "state", "tracks")

    def __init__(self, state: State, tracks: bool) -> None:
        self.state = state
        self.tracks = tracks
        self.flights: dict[int, InFlight] = {}

    def track(self, tracks: bool) -> None:
        """Start or stop keeping flights by replica too."""
        if tracks == self.tracks:
            return
        self.tracks = tracks
        for sent in self.state.sent_to:
            sent.clear()
        for flight in self.flights.values() if tracks else ():
            self.state.sent_to[flight.place][flight.request.id] = flight

    def send(self, flight: InFlight) -> None:
        """A request goes to its replica now; its partner in a P/D pair, if it has one, counts it too."""
        state, request = self.state, flight.request
        self.flights[request.id] = flight
        if self.tracks:
            state.sent_to[flight.replica][request.id] = flight
        if flight.decode != flight.replica:
            state.count(flight.decode, 1)
        state.sent(state.now, request, flight.replica)

    def end(self, request: int) -> InFlight:
        """A request has left all its replicas."""
        flight, state = self.flights.pop(request), self.state
        if self.tracks:
            state.sent_to[flight.place].pop(request, None)
        if not flight.prefilled and state.status[flight.replica] in _PRESENT:
            state.ended(state.now, flight.request, flight.replica)
        if flight.prefilled or flight.decode != flight.replica:
            self._leave(flight.request, flight.decode, True)
        if flight.target >= 0:
            self._leave(flight.request, flight.target, flight.prefilled)
        return flight

    def prefilled(self, request: int) -> None:
        """The prefill half of a P/D pair is done with a request."""
        flight = self.flights[request]
        flight.prefilled = True
        self.state.ended(self.state.now, flight.request, flight.replica)
        self._follow(flight, flight.replica)

    def move(self, flight: InFlight, target: int) -> None:
        """A request begins to move to another replica: it counts at both until it arrives."""
        state = self.state
        flight.target = target
        if not flight.prefilled:
            state.sent(state.now, flight.request, target)
        else:
            state.count(target, 1)

    def moved(self, flight: InFlight) -> None:
        """It has arrived."""
        source = flight.place
        self._leave(flight.request, source, flight.prefilled)
        flight.arrive()
        self._follow(flight, source)

    def stayed(self, flight: InFlight) -> None:
        """The move failed."""
        if flight.target >= 0:
            self._leave(flight.request, flight.target, flight.prefilled)
            flight.target = -1

    def _leave(self, request: RequestView, replica: int, half: bool) -> None:
        """A request no longer counts at a replica; `half`: only its output was made there."""
        state = self.state
        if state.status[replica] not in _PRESENT:
            return
        if not half:
            state.ended(state.now, request, replica)
        else:
            state.count(replica, -1)

    def _follow(self, flight: InFlight, before: int) -> None:
        if self.tracks:
            self.state.sent_to[before].pop(flight.request.id, None)
            self.state.sent_to[flight.place][flight.request.id] = flight
