"""One request to an engine: the callbacks for its answer, and its cancellation."""

from __future__ import annotations

import asyncio
from typing import Literal, NamedTuple, Protocol

Kind = Literal["refused", "dns", "reset", "cut", "timeout", "garbage", "stale"]


class Address(NamedTuple):
    """The address of an engine's HTTP server.

    server_name: the name in its certificate and in the `host` header, where that is not `host`.
    """

    host: str
    port: int
    tls: bool = False
    server_name: str = ""


class Failure(NamedTuple):
    """Why a request has no complete answer.

    kind: refused (no connection, or no TLS on it), dns (no such host), reset (the connection broke), cut (the engine
    closed before the end), timeout, garbage (not HTTP), stale (a kept connection was closed and nothing of an answer
    came: mostly the engine closed it because it was idle, but it may have read the request).
    answered: something of an answer came.  sent: the request was written to a connection.
    """

    kind: Kind
    reason: str
    answered: bool
    sent: bool = True


class ResponseHandler(Protocol):
    """Callbacks of a request's sender: one of `end` and `failed`, once; nothing after it or after `Call.cancel()`."""

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """The answer began; headers are lower-cased, without those of the hop."""

    def data(self, data: bytes) -> None:
        """Bytes of the body, as they arrived: all of one read at once."""

    def end(self) -> None:
        """The answer is complete."""

    def failed(self, why: Failure) -> None:
        """The answer will not be complete."""


class Carrier(Protocol):
    """The connection that a request is on."""

    def drop(self) -> None:
        """Close at once, without a callback."""

    def pause(self) -> None:
        """Read no more."""

    def resume(self) -> None:
        """Read on."""


class Call:
    """A running request.

    answered: something of its answer arrived.  over: it has ended, failed or was cancelled.
    """

    __slots__ = ("answered", "handler", "opening", "over", "paused", "upstream")

    def __init__(self, handler: ResponseHandler) -> None:
        self.handler = handler
        self.answered = False
        self.over = False
        self.paused = False
        self.upstream: Carrier | None = None
        self.opening: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """Cancel it: the connection is closed at once, by which the engine learns that its client left."""
        if self.over:
            return
        upstream, opening = self.upstream, self.opening
        self.finish()
        if upstream is not None:
            upstream.drop()
        elif opening is not None:
            opening.cancel()

    def pause(self) -> None:
        """Read no more of the answer."""
        self.paused = True
        if self.upstream is not None:
            self.upstream.pause()

    def resume(self) -> None:
        """Resume reading."""
        self.paused = False
        if self.upstream is not None:
            self.upstream.resume()

    def finish(self) -> ResponseHandler:
        """End the call: drop the reference to its sender, which often holds the call, and return it to be notified."""
        handler, self.handler = self.handler, DISCARD
        self.over = True
        self.upstream = self.opening = None
        return handler

    def fail(self, kind: Kind, reason: str) -> None:
        """Report the failure to the sender, unless the call is over."""
        sent = self.upstream is not None
        self.finish().failed(Failure(kind, reason, self.answered, sent))


class _Discard:
    """The sender of a call that is over; ignores everything."""

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None: ...

    def data(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def failed(self, why: Failure) -> None: ...


DISCARD: ResponseHandler = _Discard()
