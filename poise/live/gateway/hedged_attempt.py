"""A duplicate of a request at a second engine; the first byte of an answer, or a failure, decides which one is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from poise.core.event import Refused

if TYPE_CHECKING:
    from poise.live.gateway.fleet import Engine
    from poise.live.gateway.proxied_request import ProxiedRequest
    from poise.live.gateway.world import World
    from poise.live.http.call import Call, Failure

Headers = Sequence[tuple[bytes, bytes]]


class HedgedAttempt:
    """Receives the second engine's answer, and hands it to the proxied request at the first byte of a good one.

    sent_at: picoseconds.  error: the body of an error so far.
    """

    __slots__ = ("_trip", "_world", "call", "engine", "error", "head_of", "sent_at")

    def __init__(self, proxied: ProxiedRequest, world: World, engine: Engine) -> None:
        self._trip = proxied
        self._world = world
        self.engine = engine
        self.sent_at = world.clock()
        self.head_of: tuple[int, Headers] | None = None
        self.error = b""
        engine.sent += 1
        engine.hedges += 1
        self.call: Call = proxied.post(engine, proxied.exchange.body, self)

    # Called by the engine's connection -------------------------------------------------------------------------------

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """The answer begins."""
        self.head_of = status, headers

    def data(self, data: bytes) -> None:
        """A part of the answer's body: of a good one the first, of an error perhaps many."""
        assert self.head_of is not None
        if self.head_of[0] < 400:
            self._win()
            self._trip.data(data)
            return
        most = self._world.settings.error_bytes
        self.error += data[: most - len(self.error)]
        if len(self.error) >= most:
            self.call.cancel()
            self._refused()

    def end(self) -> None:
        """The answer is complete: it had no body, or it was an error."""
        assert self.head_of is not None
        if self.head_of[0] < 400:
            self._win()
            self._trip.end()
        else:
            self._refused()

    def failed(self, why: Failure) -> None:
        """The connection to the engine failed; the client is not affected."""
        if why.kind != "stale":
            self.engine.failed(why.kind, True, self.sent_at)
        self._gone(f"{self.engine.name}: {why.reason}", why.sent)

    def call_off(self, reason: str) -> None:
        """Cancel the duplicate; the first engine continues."""
        self.call.cancel()
        self._gone(reason)

    def _win(self) -> None:
        self.engine.hedges_won += 1
        self._trip.overtaken()

    def _refused(self) -> None:
        assert self.head_of is not None
        status = self.head_of[0]
        self.engine.refused(status, self.sent_at)
        self._gone(f"{self.engine.name} answered {status}")

    def _gone(self, reason: str, sent: bool = True) -> None:
        proxied, world = self._trip, self._world
        proxied.attempt = None
        world.turn(Refused(world.clock(), proxied.view.id, self.engine.slot, reason, True, not sent, sent))
