"""One proxied request: from the client to one engine after another, until one of them answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from poise.core.event import Cancelled, Failed, Finished, FirstToken, Prefilled, Refused
from poise.core.request import RequestView
from poise.live.gateway.disaggregated import PrefillCall, prefill_body
from poise.live.gateway.errors import error_event, in_words
from poise.live.gateway.hedged_attempt import HedgedAttempt
from poise.live.gateway.usage import Usage
from poise.live.http.refuse import styled
from poise.live.requests.paths import GENERATING, MESSAGES

if TYPE_CHECKING:
    from poise.live.gateway.fleet import Engine
    from poise.live.gateway.hints import Hint
    from poise.live.gateway.world import World
    from poise.live.http.call import Call, Failure, ResponseHandler
    from poise.live.http.exchange import Exchange

Headers = Sequence[tuple[bytes, bytes]]

HELD: Final = 0  # no engine has it
SENT: Final = 1  # an engine has it, its client has not seen a byte
ANSWERING: Final = 2
ENDED: Final = 3

OTHERS_MAY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which another engine may do better (RFC 9110; 500 as engines give it when they are dying)."""


class ProxiedRequest:
    """The request, its client's exchange and the call to its current engine; it receives the engine's answer.

    sent_at, first_at: picoseconds, -1 for not yet.  engine: the last one that it was sent to.
    on_first_data: callback for the first bytes of the answer's body.
    gathers: whether a non-streaming answer is buffered until it is complete.
    attempt: its duplicate at another engine, while both run.  hint: the KV retention hint sent to engines, or None.
    """

    __slots__ = (
        "_error",
        "_flowing",
        "_fresh",
        "_gathered",
        "_head",
        "_hedged",
        "_why",
        "_world",
        "attempt",
        "call",
        "engine",
        "exchange",
        "first_at",
        "gathers",
        "hint",
        "on_first_data",
        "sent_at",
        "state",
        "stream",
        "tenant",
        "usage",
        "view",
    )  # fmt: skip

    def __init__(self, world: World, exchange: Exchange, view: RequestView, stream: bool, tenant: str) -> None:
        self._world = world
        self.exchange = exchange
        self.view = view
        self.stream = stream
        self.tenant = tenant
        self.gathers = True
        self.state = HELD
        self.call: Call | None = None
        self.engine: Engine | None = None
        self.sent_at = self.first_at = -1
        self.usage = Usage(stream, exchange.path == MESSAGES)
        self.on_first_data: Callable[[ProxiedRequest, bytes], None] | None = None
        self.attempt: HedgedAttempt | None = None
        self.hint: Hint | None = None
        self._head: tuple[int, Headers] | None = None
        self._error = self._gathered = b""
        self._flowing = True
        self._hedged = False
        self._fresh = False  # whether a kept connection was closed under it, so that it goes on new ones from then on
        self._why = ("", "")  # the last failure, as recorded and as reported to the client
        exchange.gone = self.leave
        exchange.flow = self.flow

    @property
    def slot(self) -> int:
        """The slot of the engine that works on it, -1 for none."""
        return -1 if self.call is None or self.engine is None else self.engine.slot

    @property
    def begun(self) -> bool:
        """Whether the body of its answer has begun."""
        return self.state == ANSWERING or bool(self._gathered)

    @property
    def slots(self) -> tuple[int, ...]:
        """That slot, and the slot of the engine that has its duplicate."""
        return (self.slot,) if self.attempt is None else (self.slot, self.attempt.engine.slot)

    # Called by the world ---------------------------------------------------------------------------------------------

    def send(self, engine: Engine, decode: Engine | None = None) -> None:
        """Send it to an engine, with the client's own bytes; or its prompt there, and then the rest to `decode`."""
        self.state = SENT
        self.sent_at = self._world.clock()
        engine.sent += 1
        if decode is None:
            self._post(engine, self.exchange.body, self)
        elif self.exchange.path not in GENERATING:  # prompt and output cannot be divided
            self.engine = engine
            self.go_on(decode, self.exchange.body)
        else:
            self._post(engine, prefill_body(self.exchange.body), PrefillCall(self, engine, decode))

    def go_on(self, decode: Engine, body: bytes) -> None:
        """Its prompt is computed: let `decode` generate the output."""
        assert self.engine is not None
        self.call = None
        world = self._world
        world.turn(Prefilled(world.clock(), self.view.id, self.engine.slot))
        if self.state == SENT:
            decode.sent += 1
            self._post(decode, body, self)

    def _post(self, engine: Engine, body: bytes, handler: ResponseHandler) -> None:
        """Send this, in place of what was sent before."""
        if self.call is not None:
            self.call.cancel()
        self.engine = engine
        self._head, self._error, self._gathered = None, b"", b""
        self.call = self.post(engine, body, handler)
        if not self._flowing:
            self.call.pause()

    def post(self, engine: Engine, body: bytes, handler: ResponseHandler) -> Call:
        """Send an engine this body, with its hint."""
        hinted = body if self.hint is None else self.hint.body(engine, body)
        return engine.post(self.exchange, hinted, handler, self._fresh)

    def hedge(self, engine: Engine) -> None:
        """Send a duplicate to a second engine; the first byte of a good answer decides."""
        self._hedged = True
        self.attempt = HedgedAttempt(self, self._world, engine)

    def stop(self) -> None:
        """Abort it at its engine, or at both."""
        if self.attempt is not None:
            self._drop_twin()
        if self.call is not None:
            self.call.cancel()
            self.call = None

    def stop_at(self, slot: int) -> None:
        """Abort it, or its duplicate, at the engine of a slot."""
        if self.attempt is not None and self.attempt.engine.slot == slot:
            self._drop_twin()
        elif self.slot == slot:
            self.stop()

    def lost(self, slot: int, why: Failure) -> None:
        """The engine of a slot, which has it or its duplicate, is lost."""
        attempt = self.attempt
        if attempt is not None and attempt.engine.slot == slot:
            attempt.call.cancel()
            attempt.failed(why)
            return
        if self.call is not None:
            self.call.cancel()
        self.failed(why)

    def overtaken(self) -> None:
        """Only the duplicate is left: it answered first, or the first engine failed."""
        attempt, self.attempt = self.attempt, None
        assert attempt is not None
        if self.call is not None:
            self.call.cancel()
        self.engine, self.call, self._head, self._error = attempt.engine, attempt.call, attempt.head_of, attempt.error
        self._gathered = b""
        self.call.handler = self
        if not self._flowing:
            self.call.pause()

    def _drop_twin(self) -> None:
        assert self.attempt is not None
        self.attempt.call.cancel()
        self.attempt = None

    def refuse(self, reason: str, retry_after: int) -> None:
        """Answer the client with an error: that of the engine that had the request last, if it sent one.

        A request that a policy rejects although an engine could take it gets 429 (too much load), not 503 (a fault).
        """
        if self.state == ENDED:
            return
        if self._head is not None:
            status, headers = self._head
            self._answer(status, headers, self._error)
            return
        recorded, message = self._why
        busy = retry_after or (self.engine is None and not self._world.control.state.hopeless(self.view))
        status, kind = (429, "rate_limit_exceeded") if busy else (503, "server_error")
        self.answer_error(status, kind, message if reason == recorded else reason, retry_after)

    def answer_error(self, status: int, kind: str, reason: str, retry_after: int = 0) -> None:
        """An error of the gateway's own; 503 always says when to try again."""
        after = -(-retry_after // 10**12) or int(status == 503)
        headers = [(b"retry-after", str(after).encode())] if after else []
        self._answer(status, headers, styled(self.exchange.path, status, reason, kind, code=status))

    def _answer(self, status: int, headers: Headers, body: bytes) -> None:
        kind = next((value for name, value in headers if name == b"content-type"), b"application/json")
        rest = [(name, value) for name, value in headers if name not in (b"content-type", b"content-length")]
        self.state = ENDED
        self._world.ended(self, status)
        self.exchange.answer(status, body, kind, rest)

    # Called by the client's connection -------------------------------------------------------------------------------

    def leave(self) -> None:
        """The client has disconnected."""
        if self.state != ENDED:
            self.state = ENDED
            self.stop()
            self._world.ended(self, 499)
            self._world.turn(Cancelled(self._world.clock(), self.view.id, "its client left", self.usage.tokens))

    def flow(self, on: bool) -> None:
        """The client reads too slowly, or fast enough again."""
        self._flowing = on
        if self.call is not None:
            (self.call.resume if on else self.call.pause)()

    def give_up(self, status: int, reason: str) -> None:
        """It has waited too long, or the gateway shuts down."""
        if self.state == ANSWERING:
            self._break(status, reason)
        elif self.state != ENDED:
            self.stop()
            self.answer_error(status, "server_error", reason, 10**12)
        else:
            return
        self._world.turn(Cancelled(self._world.clock(), self.view.id, reason, self.usage.tokens))

    # Called by the engine's connection -------------------------------------------------------------------------------

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """The answer begins; its head is withheld from the client until the first body byte, for a retry."""
        self._head = status, headers

    def data(self, data: bytes) -> None:
        """A part of the answer's body."""
        if self.state != ANSWERING:
            assert self._head is not None
            if self._head[0] >= 400:
                self._keep_error(data)
                return
            gathered = self._gathered + data
            most = self._world.settings.gathered_bytes
            if self.gathers and not (self.stream or self._hedged) and len(gathered) <= most:
                self._gathered = gathered
                return
            data, self._gathered = gathered, b""
            self._begin()
        self._pass(data)

    def _pass(self, data: bytes) -> None:
        """Pass a part of the answer on."""
        if self.on_first_data is not None:
            self.on_first_data(self, data)
            self.on_first_data = None
        self.usage.see(data)
        if self.hint is not None:
            self.hint.see(data)
        self.exchange.write(data)

    def _keep_error(self, data: bytes) -> None:
        """Buffer an error answer to pass on, up to a bound; then it is passed on truncated, since it may be endless."""
        assert self._head is not None and self.engine is not None
        most = self._world.settings.error_bytes
        self._error += data[: most - len(self._error)]
        if len(self._error) >= most:
            assert self.call is not None
            self.call.cancel()
            self.refused(self.engine, *self._head, self._error)

    def _begin(self) -> None:
        assert self._head is not None and self.engine is not None
        status, headers = self._head
        world = self._world
        self.state = ANSWERING
        if self.attempt is not None:
            self._drop_twin()
        exchange = self.exchange
        if self.stream:  # a stated length may leave no room for an error event
            headers = [header for header in headers if header[0] != b"content-length"]
        exchange.start(status, headers)
        exchange.forget()  # no further attempt
        self.first_at = world.clock()
        if self.stream or self._hedged:
            world.turn(FirstToken(self.first_at, self.view.id, self.engine.slot))

    def end(self) -> None:
        """The engine's answer is complete."""
        assert self._head is not None and self.engine is not None
        status, world, engine = self._head[0], self._world, self.engine
        if status >= 400:
            self.refused(engine, *self._head, self._error)
            return
        self.call = None
        if self.state != ANSWERING:
            self._begin()
            self._pass(self._gathered)
        tokens = self.usage.end()
        if self.hint is not None:
            self.hint.end(tokens)
        self.state = ENDED
        self.exchange.end()
        engine.well(self.sent_at)
        world.ended(self, status)
        world.turn(Finished(world.clock(), self.view.id, tokens))

    def refused(self, engine: Engine, status: int, headers: Headers, body: bytes) -> None:
        """The engine refused the request; another engine may have a model that this one does not have."""
        world = self._world
        self.call = None
        self._head, self._error = (status, headers), body
        engine.refused(status, self.sent_at)
        if self.attempt is not None:
            self.overtaken()
        else:
            self.state = HELD
        reason = f"{engine.name} answered {status}"
        again = status in OTHERS_MAY or (status == 404 and (self.view.lora >= 0 or len(engine.models) > 1))
        world.turn(Refused(world.clock(), self.view.id, engine.slot, reason, again))

    def failed(self, why: Failure) -> None:
        """The connection to the engine failed."""
        assert self.engine is not None
        world, engine = self._world, self.engine
        self.call = None
        stale = why.kind == "stale"
        if stale:  # engines close idle connections, which is not a failure; but this one may have read the request
            self._fresh = True
        else:
            engine.failed(why.kind, True, self.sent_at)
        now, reason = world.clock(), f"{engine.name}: {why.reason}"
        self._why = reason, in_words(why.kind)
        if self.state == ANSWERING:
            self._break(502, in_words(why.kind))
            world.turn(Failed(now, self.view.id, engine.slot, reason, self.usage.tokens))
        else:
            if self.attempt is not None:
                self.overtaken()
            else:
                self.state, self._head = HELD, None
            world.turn(Refused(now, self.view.id, engine.slot, reason, True, stale or not why.sent, why.sent))

    def _break(self, status: int, message: str) -> None:
        """The answer cannot be completed: report it where the client can read it, and end the connection."""
        self.state = ENDED
        self.stop()
        exchange = self.exchange
        if self.stream:
            exchange.write(error_event(exchange.path, status, message, self.usage.events))
        self._world.ended(self, status)
        exchange.cut()
