"""The world with real time: passes events of clients and engines to `Control`, and executes its actions."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from poise.core.action import Abort, Action, Dispatch, Hedge, Move, Refuse, Scale, Wake
from poise.core.control.control import Control
from poise.core.errors import PolicyError
from poise.core.event import Arrived, Cancelled, Event, FirstToken, Moved, MoveFailed, Refused, Tick
from poise.live.gateway.fleet import DRAINING, Engine, EngineAt, Fleet, Note
from poise.live.gateway.hints import Hints
from poise.live.gateway.proxied_request import ANSWERING, ENDED, HELD, SENT, ProxiedRequest
from poise.live.gateway.settings import Settings
from poise.live.http.call import Failure
from poise.live.http.pool import Pool

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
        watcher: Callable[[ProxiedRequest, int], None] | None = None,
        note: Note = lambda engine, kind, well, sent_at: None,
    ) -> None:
        self.control = control
        self.settings = settings
        self.clock = clock
        self.fleet = Fleet(
            len(control.state.replicas), connect, clock, self.turn, lambda slot: bool(self.on(slot)), note
        )
        self.proxied_requests: dict[int, ProxiedRequest] = {}
        self.policy_errors = 0
        self.policy_error = ""
        self.onlooker: Callable[[Event, Sequence[Action]], None] | None = None
        """Callback for arrivals and the actions decided on them, before these are executed."""
        self.sending: Callable[[ProxiedRequest, Engine], None] | None = None
        """Callback for a request that is sent to an engine, before it is sent."""
        self.keep: Callable[[Event | Action], None] | None = None
        self.share: Callable[[], None] | None = None
        """Callback where other gateways are to be sent something (`Control.outbox`)."""
        self.connected: Callable[[], int] = lambda: 0
        """How many other gateways get what this one reports."""
        self.hints: Hints | None = None
        """Decides for how long engines keep KV."""
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
        if self._turning:
            self._waiting.append(event)
            return
        self._turning = True
        try:
            self._one(event)
            while self._waiting:
                self._one(self._waiting.popleft())
        finally:
            self._turning = False

    def turn_all(self, events: Iterable[Event]) -> None:
        """`turn` each of them, in order."""
        for event in events:
            self.turn(event)

    def _one(self, event: Event) -> None:
        keep = self.keep
        if keep is not None:
            keep(event)
        try:
            actions = self.control.handle(event)
        except Exception as error:  # a policy is the user's code: its errors must not stop the gateway
            self._decided_nothing(event, error)
            return
        if self.control.outbox and self.share is not None:
            self.share()
        if self.onlooker is not None and (actions or type(event) is Arrived):
            self.onlooker(event, actions)
        for action in actions:
            if keep is not None:
                keep(action)
            self._perform(action)

    def policy_failed(self, at: str, error: Exception) -> None:
        """A policy raised an exception in the call named by `at`."""
        self.policy_errors += 1
        text = str(error) if isinstance(error, PolicyError) else f"{type(error).__name__}: {error}"
        self.policy_error = text
        log.error("a policy failed at %s: %s", at, text, exc_info=error if self.policy_errors == 1 else None)

    def _decided_nothing(self, event: Event, error: Exception) -> None:
        """A policy failed to decide on an event."""
        self.policy_failed(type(event).__name__, error)
        if isinstance(event, Arrived):
            proxied = self.proxied_requests.get(event.request.id)
            if proxied is not None:
                proxied.answer_error(500, "server_error", "the gateway's policy failed")

    def _perform(self, action: Action) -> None:
        kind = type(action)
        if kind is Dispatch:
            self._dispatch(action)  # type: ignore[arg-type]
        elif kind is Refuse:
            proxied = self.proxied_requests.get(action.request)  # type: ignore[union-attr]
            if proxied is not None:
                proxied.refuse(action.reason, action.retry_after)  # type: ignore[union-attr]
        elif kind is Abort:
            proxied = self.proxied_requests.get(action.request)  # type: ignore[union-attr]
            if proxied is not None and proxied.state != HELD:
                proxied.stop_at(action.replica)  # type: ignore[union-attr]
        elif kind is Wake:
            self._wake(action.at)  # type: ignore[union-attr]
        elif kind is Move:
            self._move(action)  # type: ignore[arg-type]
        elif kind is Hedge:
            self._hedge(action)  # type: ignore[arg-type]
        elif kind is Scale:
            self._log_scale(action)  # type: ignore[arg-type]

    def begin(self) -> None:
        """Call the scaler, if there is one, at each multiple of its period from now on."""
        scaling = self.control.scaling
        if scaling is not None:
            self._wake((self.clock() // scaling.beat + 1) * scaling.beat)

    def _log_scale(self, action: Scale) -> None:
        """No action: external autoscalers read the metric `poise_desired_replicas`; a gateway starts no engine."""
        scaling = self.control.scaling
        assert scaling is not None
        log.info("pool %s is to have %d engines", scaling.pools[action.pool].name, action.replicas)

    def _dispatch(self, action: Dispatch) -> None:
        proxied = self.proxied_requests.get(action.request)
        if proxied is None or proxied.state == ENDED:
            self._waiting.append(Cancelled(self.clock(), action.request, "its client left"))
            return
        slots = self.fleet.slots
        engine, decode = slots[action.replica], slots[action.decode]
        if engine is None or decode is None:
            self._waiting.append(self._engine_gone(action.request, action.replica))
            return
        self._send(proxied, engine, None if decode is engine else decode)

    def _send(self, proxied: ProxiedRequest, engine: Engine, decode: Engine | None) -> bool:
        """Send a request, if it can be written: a body that is nested too deeply for that is its client's mistake."""
        if self.sending is not None:
            self.sending(proxied, engine)
        try:
            proxied.send(engine, decode)
        except (ValueError, RecursionError):
            proxied.answer_error(400, "invalid_request_error", "the request cannot be written to an engine")
            self._waiting.append(Cancelled(self.clock(), proxied.view.id, "it cannot be written"))
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
        proxied, engine = self.proxied_requests.get(action.request), self.fleet.slots[target]
        now, flight = self.clock(), self.control.flights[action.request]
        if (
            proxied is not None
            and proxied.state == SENT
            and proxied.call is not None
            and engine is not None
            and not flight.prefilled
        ):
            proxied.stop()
            decode = None if flight.decode == flight.replica else self.fleet.slots[flight.decode]
            if self._send(proxied, engine, decode):
                self._waiting.append(Moved(now, action.request, source, target))
        else:
            self._waiting.append(MoveFailed(now, action.request, source, target, "its answer has begun"))

    def _hedge(self, action: Hedge) -> None:
        """Send a duplicate, unless a queued event makes it superfluous."""
        proxied, engine = self.proxied_requests.get(action.request), self.fleet.slots[action.replica]
        if proxied is None or proxied.state == ENDED:
            self._waiting.append(Cancelled(self.clock(), action.request, "its client left"))
        elif proxied.begun:
            if not proxied.stream:
                self._waiting.append(FirstToken(self.clock(), action.request, proxied.slot))
        elif engine is None:
            self._waiting.append(self._engine_gone(action.request, action.replica))
        elif proxied.state == SENT:
            proxied.hedge(engine)
        else:  # the first engine has refused it just now
            proxied.send(engine)

    # Requests --------------------------------------------------------------------------------------------------------

    def arrive(self, proxied: ProxiedRequest) -> None:
        """A client's request has arrived, complete."""
        view = proxied.view
        self.proxied_requests[view.id] = proxied
        if self.keep_body is not None:
            self.keep_body(view.id, proxied.exchange.body)
        if self.hints is not None:
            proxied.hint = self.hints.arrived(view, proxied.exchange.path)
        self.turn(Arrived(view.arrived_at, view))

    def ended(self, proxied: ProxiedRequest, status: int) -> None:
        """A request has ended for its client."""
        del self.proxied_requests[proxied.view.id]
        proxied.exchange.gone = proxied.exchange.flow = (
            None  # or the two would keep each other until the garbage collector
        )
        if self._watcher is not None:
            self._watcher(proxied, status)

    def on(self, slot: int) -> list[ProxiedRequest]:
        """The requests that an engine has."""
        return [proxied for proxied in self.proxied_requests.values() if slot in proxied.slots]

    def lose(self, engine: Engine) -> None:
        """An engine is dead: its requests go elsewhere, and its cache is dropped from the belief."""
        self.fleet.eject(engine)  # first, or what is held would go there as its requests are taken away
        for proxied in self.on(engine.slot):
            proxied.lost(engine.slot, Failure("reset", "the engine is gone", False))
        self.fleet.lose(engine)

    def sweep(self) -> None:
        """Abort requests that have waited or run too long; remove drained engines."""
        now, settings = self.clock(), self.settings
        held, life = int(settings.held_s * 1e12), int(settings.request_s * 1e12)
        for proxied in list(self.proxied_requests.values()):
            age = now - proxied.view.arrived_at
            if held and proxied.state == HELD and age > held:
                proxied.give_up(503, f"no engine could take it in {settings.held_s:g} s")
            elif life and age > life:
                proxied.give_up(
                    504 if proxied.state != ANSWERING else 502, f"it took longer than {settings.request_s:g} s"
                )

        for engine in [each for each in self.fleet if each.status == DRAINING]:
            self.fleet.leave_if_idle(engine)

    def end_all(self, reason: str) -> None:
        """The gateway shuts down: end every request."""
        for proxied in sorted(
            self.proxied_requests.values(), key=lambda proxied: proxied.state
        ):  # the held first: none is sent any more
            proxied.give_up(503, reason)
