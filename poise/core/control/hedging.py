"""Hedged requests: sends a copy of a request that waits long for its first token, and keeps the faster of the two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from poise.core.action import Abort, Action, Dispatch, Hedge, Hold, Refuse, Reject, Wake
from poise.core.errors import PolicyError
from poise.core.event import Cancelled, Event, Failed, Finished, FirstToken, Refused, ReplicaLeft, ReplicaLost, Tick

if TYPE_CHECKING:
    from poise.core.control.control import Control
    from poise.core.control.flight import InFlight
    from poise.core.policy import Hedger

Handler = Callable[[Any, Any], Sequence[Action]]


class Hedging:
    """Calls the hedger of a `Control` when it is time, and decides which of two copies stays.

    A hedged flight counts at both replicas, as one that moves does, and is shown as one: no mover touches it, and what
    moves is not hedged. Neither are the halves of a P/D pair, a request that only its `home` can serve, and one whose
    client had a first token before its replica was lost: no first token would settle it.
    """

    def __init__(self, hedger: Hedger, control: Control) -> None:
        self.hedger = hedger
        self._control = control
        self._due: list[tuple[int, int, int]] = []
        self._wake_at = 0
        self._begun: set[int] = set()

    def handle(self, event: Event, handler: Handler) -> Sequence[Action]:
        """The actions for an event: first for pairs of copies, then those of `handler`."""
        kind, control = type(event), self._control
        actions: list[Action] = []
        if kind is FirstToken:
            actions += self._first_token(event)  # type: ignore[arg-type]
        elif kind is ReplicaLost or kind is ReplicaLeft:
            self._gone(event.replica)  # type: ignore[union-attr]
        elif kind is Finished or kind is Cancelled or kind is Failed:
            self._begun.discard(event.request)  # type: ignore[union-attr]
        if (kind is Refused or kind is Failed) and self._goes_on(event):  # type: ignore[arg-type]
            actions += control.route_held()
        else:
            actions += handler(control, event)
        if kind is Tick:
            actions += self._ask_due(event.at)
        for action in actions:
            if type(action) is Dispatch:
                self._sent(action.request)
            elif type(action) is Refuse:
                self._begun.discard(action.request)
        return self._with_wake(actions)

    # Timing ----------------------------------------------------------------------------------------------------------

    def _sent(self, request: int) -> None:
        """A request was sent, or got no copy: the hedger says when to call it."""
        flight = self._control.flights[request]
        if flight.decode != flight.replica or request in self._begun or flight.request.home >= 0:
            return
        state = self._control.state
        wait = self.hedger.wait(flight.request, flight.replica, state)
        if wait > 0:
            heappush(self._due, (state.now + wait, request, flight.sent_at))

    def _ask_due(self, now: int) -> list[Action]:
        """The copies of requests whose time has come."""
        actions: list[Action] = []
        if now >= self._wake_at:
            self._wake_at = 0
        while self._due and (self._due[0][0] <= now or not self._waits(*self._due[0][1:])):
            _, request, sent_at = heappop(self._due)
            if self._waits(request, sent_at):
                second = self._second(self._control.flights[request])
                if second is None:
                    self._sent(request)
                else:
                    actions.append(second)
        return actions

    def _waits(self, request: int, sent_at: int) -> bool:
        """Whether a request that was sent then still waits for its first token, with no copy."""
        flight = self._control.flights.get(request)
        return flight is not None and flight.sent_at == sent_at and flight.first_token_at < 0 and not flight.hedged

    def _with_wake(self, actions: list[Action]) -> Sequence[Action]:
        """One wake is requested at a time: for the first that is due."""
        if self._due and not 0 < self._wake_at <= self._due[0][0]:
            self._wake_at = self._due[0][0]
            actions.append(Wake(self._wake_at))
        return actions

    def _second(self, flight: InFlight) -> Hedge | None:
        """Choose a second replica among those that may be sent the request now."""
        control, request = self._control, flight.request
        state, tried = control.state, control.tried.get(request.id)
        able: Any = () if flight.target >= 0 else state.peers(request, flight.replica)
        if tried is not None:
            able = tried.left(able) if tried.sent + 1 < control.tries else ()
        for policy in control.admission:
            if not able:
                break
            able = policy.admit(request, able, state)
            if type(able) is Hold or type(able) is Reject:
                return None
        if not able:
            return None
        control.chance.key = request.id
        replica = self.hedger.hedge(request, flight.replica, able, state, control.chance)
        if replica is None:
            return None
        if replica not in able:
            raise PolicyError(
                f"{type(self.hedger).__name__} sends a copy of request {request.id} to replica {replica}, which is not "
                f"among the able {tuple(able)}"
            )
        flight.hedged = True
        control.in_flight.move(flight, replica)
        return Hedge(request.id, replica)

    # Which copy stays ------------------------------------------------------------------------------------------------

    def _first_token(self, event: FirstToken) -> Sequence[Action]:
        """The replica that gave the first token keeps the request; the other copy is stopped."""
        flight = self._control.flights[event.request]
        if not flight.hedged:
            return ()
        other = flight.target if event.replica == flight.replica else flight.replica
        self._drop(flight, other)
        return (Abort(event.request, other),)

    def _goes_on(self, event: Refused | Failed) -> bool:
        """Whether another copy is left of a request that a replica does not answer; if so, no failure is reported."""
        control = self._control
        flight = control.flights[event.request]
        if not flight.hedged:
            return False
        if type(event) is Refused:
            control.note_refused(event)
        self._drop(flight, event.replica)
        return True

    def _gone(self, gone: int) -> None:
        """A replica is lost: requests with a copy elsewhere continue there."""
        for flight in self._control.flights.values():
            if flight.hedged and gone in (flight.replica, flight.target):
                self._drop(flight, gone)
            elif flight.place == gone and flight.first_token_at >= 0:
                self._begun.add(flight.request.id)

    def _drop(self, flight: InFlight, replica: int) -> None:
        """A hedged flight has left one of its two replicas."""
        in_flight = self._control.in_flight
        (in_flight.stayed if replica == flight.target else in_flight.moved)(flight)
        flight.hedged = False
