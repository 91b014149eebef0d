"""The world with real time: passes events of clients and engines to `Control`, and executes its actions."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from poise.core.action import Abort, Action, Dispatch, Hedge, Move, Refuse, Scale, Wake
from poise.core.control import Control
from poise.core.errors import PolicyError
from poise.core.event import Arrived, Cancelled, Event, FirstToken, Moved, Refused, Stayed, Tick
from poise.live.gateway.fleet import DRAINING, Engine, EngineAt, Fleet, Note
from poise.live.gateway.hints import Hints
from poise.live.gateway.settings import Settings
from poise.live.gateway.trip import ANSWERING, ENDED, HELD, SENT, Trip
from poise.live.wire.call import Failure
from poise.live.wire.pool import Pool

log = logging.getLogger("poise.gateway")


class World:
    """All requests in flight, and the one function through which every event passes: `turn`.

    clock: picoseconds.  later: calls a function at an instant.  connect: opens the connections to an engine.
    keep: callback for every event and action, in order (or None).  watcher: callback for every request that ends.
    """

    def __init__(
        self,
        control: Control,
        settings: Settings,
        clock: Callable[[], int],
        later: Callable[[int, Callable[[], None]], Any],
        connect: Callable[[EngineAt], Pool],
        *,
        watcher: Callable[[Trip, int], None] | None = None,
        note: Note = lambda engine, kind, well, sent_at: None,
    ) -> None:
        self.control = control
        self.settings = settings
        self.clock = clock
        self.fleet = Fleet(
            len(control.state.replicas), connect, clock, self.turn, lambda slot: bool(self.on(slot)), note
        )
        self.trips: dict[int, Trip] = {}
        self.policy_errors = 0
        self.policy_error = ""
        self.onlooker: Callable[[Event, Sequence[Action]], None] | None = None
        """Callback for arrivals and the actions decided on them, before these are executed."""
        self.sending: Callable[[Trip, Engine], None] | None = None
        """Callback for a request that is sent to an engine, before it is sent."""
        self.keep: Callable[[Event | Action], None] | None = None
        self.hints: Hints | None = None
        """Says for how long engines shall keep KV."""
        self.keep_body: Callable[[int, bytes], None] | None = None
        """Callback for the body of every request that arrives, where bodies are kept."""
        self._later = later
        self._watcher = watcher
        self._turning = False
        self._waiting: deque[Event] = deque()
        self._woken: set[int] = set()

    # Events in, actions out ------------------------------------------------------------------------------------------

    def turn(self, event: Event) -> None:
        """Pass an event to control and execute its actions; events that these cause are queued and handled in order."""
        waiting = self._waiting
        if self._turning:
            waiting.append(event)
            return
        self._turning = True
        try:
            self._one(event)
            while waiting:
                self._one(waiting.popleft())
        finally:
            self._turning = False

    def _one(self, event: Event) -> None:
        keep = self.keep
        if keep is not None:
            keep(event)
        try:
            actions = self.control.handle(event)
        except Exception as error:  # a policy is the user's code: its errors must not stop the gateway
            self._decided_nothing(event, error)
            return
        if self.onlooker is not None and (actions or type(event) is Arrived):
            self.onlooker(event, actions)
        for action in actions:
            if keep is not None:
                keep(action)
            self._perform(action)

    def policy_failed(self, at: str, error: Exception) -> None:
        """A policy raised an exception in the call named by `at`."""
        self.policy_errors += 1
        said = str(error) if isinstance(error, PolicyError) else f"{type(error).__name__}: {error}"
        self.policy_error = said
        log.error("a policy failed at %s: %s", at, said, exc_info=error if self.policy_errors == 1 else None)

    def _decided_nothing(self, event: Event, error: Exception) -> None:
        """A policy failed to decide on an event."""
        self.policy_failed(type(event).__name__, error)
        if isinstance(event, Arrived):
            trip = self.trips.get(event.request.id)
            if trip is not None:
                trip.answer_error(500, "server_error", "the gateway's policy failed")

    def _perform(self, action: Action) -> None:
        kind = type(action)
        if kind is Dispatch:
            self._dispatch(action)  # type: ignore[arg-type]
        elif kind is Refuse:
            trip = self.trips.get(action.request)  # type: ignore[union-attr]
            if trip is not None:
                trip.refuse(action.reason, action.retry_after)  # type: ignore[union-attr]
        elif kind is Abort:
            trip = self.trips.get(action.request)  # type: ignore[union-attr]
            if trip is not None and trip.state != HELD:
                trip.stop_at(action.replica)  # type: ignore[union-attr]
        elif kind is Wake:
            self._wake(action.at)  # type: ignore[union-attr]
        elif kind is Move:
            self._move(action)  # type: ignore[arg-type]
        elif kind is Hedge:
            self._hedge(action)  # type: ignore[arg-type]
        elif kind is Scale:
            self._say(action)  # type: ignore[arg-type]

    def begin(self) -> None:
        """Ask the scaler, if there is one, at each multiple of its period from now on."""
        scaling = self.control.scaling
        if scaling is not None:
            self._wake((self.clock() // scaling.beat + 1) * scaling.beat)

    def _say(self, action: Scale) -> None:
        """Nothing to do: external autoscalers read the metric `poise_desired_replicas`; a gateway starts no engine."""
        scaling = self.control.scaling
        assert scaling is not None
        log.info("pool %s is to have %d engines", scaling.pools[action.pool].name, action.replicas)

    def _dispatch(self, action: Dispatch) -> None:
        trip = self.trips.get(action.request)
        if trip is None or trip.state == ENDED:
            self._waiting.append(Cancelled(self.clock(), action.request, "its client left"))
            return
        slots = self.fleet.slots
        engine, decode = slots[action.replica], slots[action.decode]
        if engine is None or decode is None:
            self._waiting.append(self._engine_gone(action.request, action.replica))
            return
        self._send(trip, engine, None if decode is engine else decode)

    def _send(self, trip: Trip, engine: Engine, decode: Engine | None) -> bool:
        """Send a request, if it can be written: a body that is nested too deeply for that is its client's mistake."""
        if self.sending is not None:
            self.sending(trip, engine)
        try:
            trip.send(engine, decode)
        except (ValueError, RecursionError):
            trip.answer_error(400, "invalid_request_error", "the request cannot be written to an engine")
            self._waiting.append(Cancelled(self.clock(), trip.view.id, "it cannot be written"))
            return False
        return True

    def _engine_gone(self, request: int, slot: int) -> Refused:
        """The refusal of a request sent to a slot that is already empty: no engine has read it."""
        return Refused(self.clock(), request, slot, "the engine is gone", True, True, False)

    def _wake(self, at: int) -> None:
        if at not in self._woken:
            self._woken.add(at)
            self._later(at, lambda: self._tick(at))

    def _tick(self, at: int) -> None:
        if self.clock() < at:  # the loop's clock is coarser
            self._later(at, lambda: self._tick(at))
            return
        self._woken.discard(at)
        scaling = self.control.scaling
        if scaling is not None and not at % scaling.beat:
            self.begin()
        self.turn(Tick(self.clock()))

    def _move(self, action: Move) -> None:
        """Restart a request without output on another engine; engines cannot hand KV over at the gateway's request."""
        source, target = action.source, action.target
        trip, engine = self.trips.get(action.request), self.fleet.slots[target]
        now, flight = self.clock(), self.control.flights[action.request]
        if trip is not None and trip.state == SENT and trip.call is not None and engine is not None and not flight.half:
            trip.stop()
            decode = None if flight.decode == flight.replica else self.fleet.slots[flight.decode]
            if self._send(trip, engine, decode):
                self._waiting.append(Moved(now, action.request, source, target))
        else:
            self._waiting.append(Stayed(now, action.request, source, target, "its answer has begun"))

    def _hedge(self, action: Hedge) -> None:
        """Send a duplicate, unless a queued event makes it superfluous."""
        trip, engine = self.trips.get(action.request), self.fleet.slots[action.replica]
        if trip is None or trip.state == ENDED:
            self._waiting.append(Cancelled(self.clock(), action.request, "its client left"))
        elif trip.begun:
            if not trip.stream:
                self._waiting.append(FirstToken(self.clock(), action.request, trip.slot))
        elif engine is None:
            self._waiting.append(self._engine_gone(action.request, action.replica))
        elif trip.state == SENT:
            trip.hedge(engine)
        else:  # the first engine has refused it just now
            trip.send(engine)

    # Requests --------------------------------------------------------------------------------------------------------

    def arrive(self, trip: Trip) -> None:
        """A client's request has come, complete."""
        view = trip.view
        self.trips[view.id] = trip
        if self.keep_body is not None:
            self.keep_body(view.id, trip.exchange.body)
        if self.hints is not None:
            trip.hint = self.hints.arrived(view, trip.exchange.path)
        self.turn(Arrived(view.arrived_at, view))

    def ended(self, trip: Trip, status: int) -> None:
        """A request is over for its client."""
        del self.trips[trip.view.id]
        trip.exchange.gone = trip.exchange.flow = None  # or the two would keep each other until the garbage collector
        if self._watcher is not None:
            self._watcher(trip, status)

    def on(self, slot: int) -> list[Trip]:
        """The requests that an engine has."""
        return [trip for trip in self.trips.values() if slot in trip.slots]

    def lose(self, engine: Engine) -> None:
        """An engine is dead: what it has goes elsewhere, and its cache is taken for lost."""
        self.fleet.eject(engine)  # first, or what is held would go there as its requests are taken away
        for trip in self.on(engine.slot):
            trip.lost(engine.slot, Failure("reset", "the engine is gone", False))
        self.fleet.lose(engine)

    def sweep(self) -> None:
        """Give up what has waited or lived too long; let drained engines go."""
        now, settings = self.clock(), self.settings
        held, life = int(settings.held_s * 1e12), int(settings.request_s * 1e12)
        for trip in list(self.trips.values()):
            age = now - trip.view.arrived_at
            if held and trip.state == HELD and age > held:
                trip.give_up(503, f"no engine could take it in {settings.held_s:g} s")
            elif life and age > life:
                trip.give_up(504 if trip.state != ANSWERING else 502, f"it took longer than {settings.request_s:g} s")

        for engine in [each for each in self.fleet if each.status == DRAINING]:
            self.fleet.leave_if_idle(engine)

    def end_all(self, reason: str) -> None:
        """The gateway goes down: every request gets an end."""
        for trip in sorted(self.trips.values(), key=lambda trip: trip.state):  # the held first: none is sent any more
            trip.give_up(503, reason)
