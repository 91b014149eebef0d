"""The cluster's decisions: events in, actions out, nothing else. The same object is simulated and serves live."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from poise.core.action import Abort, Action, Dispatch, Hold, Refuse, Reject, Route, Wake
from poise.core.chance import Chance
from poise.core.errors import PolicyError
from poise.core.event import (
    Arrived,
    Cancelled,
    Draining,
    Event,
    Finished,
    FirstToken,
    Joined,
    Left,
    Lost,
    Prefilled,
    Refused,
    Reported,
    Tick,
)
from poise.core.held import Held
from poise.core.policy import Router
from poise.core.prefix import PrefixIndex
from poise.core.request import RequestView
from poise.core.spec import Belief
from poise.core.state import DRAINING, GONE, SERVING, ReplicaSpec, State

Actions = Sequence[Action]


class Flight:
    """A request that was sent: where to, and where else it may go."""

    __slots__ = ("decode", "fallback", "prefilled", "replica", "request")

    def __init__(self, request: RequestView, replica: int, decode: int, fallback: tuple[int, ...]) -> None:
        self.request = request
        self.replica = replica
        self.decode = decode
        self.fallback = fallback
        self.prefilled = False


class Control:
    """Routes, holds and rejects requests on belief.

    router: the policy (deep-copied, so that two controls never share its state).  replicas: what is known beforehand.
    resume: after a loss, go on behind the tokens that the client already has instead of starting again.
    index: the true prefix index, where `belief.prefix` is `oracle`.
    """

    def __init__(
        self,
        router: Router,
        replicas: Sequence[ReplicaSpec],
        *,
        belief: Belief | None = None,
        seed: int = 0,
        resume: bool = True,
        index: PrefixIndex | None = None,
    ) -> None:
        self.router = copy.deepcopy(router)
        self.state = State(replicas, belief or Belief(), getattr(router, "needs", ()), index)
        self.chance = Chance(seed)
        self.resume = resume
        self.held = Held(getattr(self.router, "group", _model))
        self.flights: dict[int, Flight] = {}
        self.observes = hasattr(router, "observe")

    def handle(self, event: Event) -> Actions:
        """What to do about `event`."""
        self.state.now = event.at
        if self.observes:
            self.router.observe(event)  # type: ignore[attr-defined]
        return _HANDLERS[type(event)](self, event)

    def clone(self) -> Control:
        """An independent copy with the same state, for shadow mode and search."""
        return copy.deepcopy(self)

    # Requests --------------------------------------------------------------------------------------------------------

    def _arrived(self, event: Arrived) -> Actions:
        request = event.request
        if self.held and self.held.join_queue(request):
            return ()
        action = self._decide(request)
        if action is None or type(action) is Wake:
            self.held.add(request)
        return () if action is None else (action,)

    def _decide(self, request: RequestView) -> Action | None:
        """Ask the router; None (or a Wake) when the request is to be held."""
        state = self.state
        able = state.able(request)
        if not able:
            reason = state.hopeless(request)
            return Refuse(request.id, reason) if reason else None
        self.chance.key = request.id
        decision = self.router.route(request, state, self.chance)
        if type(decision) is Route:
            replica = decision.replica
            if replica not in able:
                raise PolicyError(
                    f"{self._name} routed request {request.id} to replica {replica}, which is not among the able {able}"
                )
            decode = replica
            if state.replicas[replica].role == "prefill":
                chosen = self._decode(request, decision)
                if chosen is None:
                    return None
                decode = chosen
                if state.belief.in_flight:
                    state.requests[decode] += 1
            self.flights[request.id] = Flight(request, replica, decode, decision.fallback)
            state.sent(state.now, request, replica)
            return Dispatch(request.id, replica, decode, self.resume)
        if type(decision) is Hold:
            return Wake(decision.wake_at) if decision.wake_at > state.now else None
        if type(decision) is Reject:
            return Refuse(request.id, decision.reason)
        raise PolicyError(f"{self._name} answered {decision!r}; it must be a Route, a Hold or a Reject")

    def _decode(self, request: RequestView, route: Route) -> int | None:
        """The decode half of a P/D pair: the router's own choice, or the router asked again for that stage."""
        state = self.state
        state.stage = "decode"
        try:
            able = state.able(request)
            if not able:
                return None
            chosen = route.decode
            if chosen is None:
                decision = self.router.route(request, state, self.chance)
                if type(decision) is not Route:
                    return None
                chosen = decision.replica
            if chosen not in able:
                raise PolicyError(
                    f"{self._name} paired request {request.id} with replica {chosen}, not among the able {able}"
                )
            return chosen
        finally:
            state.stage = "serve"

    def _finished(self, event: Finished) -> Actions:
        flight = self.flights.pop(event.request)
        replica = flight.replica
        if flight.decode == replica:
            self.state.ended(event.at, flight.request, replica)
        else:
            self._land(flight)
        return self._ask_held() if self.held else ()

    def _prefilled(self, event: Prefilled) -> Actions:
        flight = self.flights[event.request]
        flight.prefilled = True
        self.state.ended(self.state.now, flight.request, flight.replica)
        return self._ask_held() if self.held else ()

    def _cancelled(self, event: Cancelled) -> Actions:
        flight = self.flights.get(event.request)
        if flight is None:
            self.held.remove(event.request)
            return self._ask_held() if self.held else ()
        self._land(self.flights.pop(event.request))
        places = {flight.decode} if flight.prefilled else {flight.replica, flight.decode}
        aborts = [Abort(event.request, replica) for replica in sorted(places)]
        return (*aborts, *self._ask_held())

    def _refused(self, event: Refused) -> Actions:
        flight = self.flights.pop(event.request)
        self._land(flight)
        while flight.fallback:
            replica, flight.fallback = flight.fallback[0], flight.fallback[1:]
            if replica in self.state.able(flight.request):
                decode = replica if flight.decode == flight.replica else flight.decode
                return (self._send_again(flight, replica, decode),)
        return (Refuse(event.request, event.reason), *self._ask_held())

    def _send_again(self, flight: Flight, replica: int, decode: int) -> Dispatch:
        request = flight.request
        self.flights[request.id] = Flight(request, replica, decode, flight.fallback)
        self.state.sent(self.state.now, request, replica)
        if decode != replica and self.state.belief.in_flight:
            self.state.requests[decode] += 1
        return Dispatch(request.id, replica, decode, self.resume)

    def _land(self, flight: Flight) -> None:
        """A request, no longer among the flights, is not at its replicas any more."""
        state = self.state
        if not flight.prefilled and state.status[flight.replica] != GONE:
            state.ended(state.now, flight.request, flight.replica)
        if flight.decode != flight.replica and state.belief.in_flight and state.status[flight.decode] != GONE:
            state.requests[flight.decode] -= 1

    def _ask_held(self) -> Actions:
        """Ask for the held requests again, in order, until the first of each group is held again."""
        actions: list[Action] = []

        def decide(request: RequestView) -> bool:
            action = self._decide(request)
            if action is not None:
                actions.append(action)
            return not (action is None or type(action) is Wake)

        self.held.ask(decide)
        return actions

    # Replicas --------------------------------------------------------------------------------------------------------

    def _reported(self, event: Reported) -> Actions:
        self.state.report(event.measured_at, event.columns, event.cached)
        return self._ask_held() if self.held else ()

    def _lost(self, event: Lost) -> Actions:
        """Send what ran on the lost replica elsewhere, oldest first, ahead of what is held."""
        victims = [
            flight
            for flight in self.flights.values()
            if event.replica == flight.decode or (event.replica == flight.replica and not flight.prefilled)
        ]
        self.state.set_status(event.replica, GONE)
        actions: list[Action] = []
        for flight in sorted(victims, key=lambda flight: flight.request.id):
            self._land(self.flights.pop(flight.request.id))
            for place in {flight.replica, flight.decode} - {event.replica}:
                actions.append(Abort(flight.request.id, place))
        self.held.put_back(flight.request for flight in victims)
        return (*actions, *self._ask_held())

    def _joined(self, event: Joined) -> Actions:
        self.state.set_status(event.replica, SERVING)
        return self._ask_held()

    def _draining(self, event: Draining) -> Actions:
        self.state.set_status(event.replica, DRAINING)
        return ()

    def _left(self, event: Left) -> Actions:
        self.state.set_status(event.replica, GONE)
        return self._ask_held() if self.held else ()

    def _nothing(self, event: FirstToken) -> Actions:
        return ()

    def _tick(self, event: Tick) -> Actions:
        return self._ask_held()

    @property
    def _name(self) -> str:
        return type(self.router).__name__


def _model(request: RequestView) -> int:
    return request.model


_HANDLERS: dict[type, Callable[[Control, Any], Actions]] = {
    Arrived: Control._arrived,
    FirstToken: Control._nothing,
    Prefilled: Control._prefilled,
    Finished: Control._finished,
    Cancelled: Control._cancelled,
    Refused: Control._refused,
    Reported: Control._reported,
    Lost: Control._lost,
    Joined: Control._joined,
    Draining: Control._draining,
    Left: Control._left,
    Tick: Control._tick,
}
