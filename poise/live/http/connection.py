"""One client's connection: bytes from the socket to the reader, exchanges to the handler, answers to the socket."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Final, Protocol, cast

from poise.live.clock import now
from poise.live.http.again import RepeatedHeads
from poise.live.http.bodies import Bodies
from poise.live.http.exchange import Exchange
from poise.live.http.header import CONTINUE, reply_head
from poise.live.http.limits import Limits
from poise.live.http.refuse import Refusal
from poise.live.http.request import HEAD, IDLE, RequestReader
from poise.live.http.sweep import Deadline

FULL: Final = Refusal(503, "connections", "too many connections")
DOWN: Final = Refusal(503, "draining", "the server is going down; ask another one", ((b"retry-after", b"1"),))
SLOW_HEAD: Final = Refusal(408, "head_timeout", "the head did not come in time")
SLOW_BODY: Final = Refusal(408, "body_timeout", "the body came too slowly")


class Owner(Protocol):
    """Owns the connections of clients, as a `Server` does.

    bodies: buffered bytes of requests' bodies.  open: requests in progress.
    """

    limits: Limits
    bodies: Bodies
    open: int

    @property
    def handler(self) -> Callable[[Exchange], None]:
        """Called with each request."""
        ...

    @property
    def refused(self) -> Callable[[str, int, str], bytes]:
        """Makes the body of an error from its status and reason."""
        ...

    def join(self, connection: Connection) -> bool:
        """A client connects; False if it is one too many."""
        ...

    def leave(self, connection: Connection) -> None:
        """A client has disconnected."""

    def lend(self) -> RequestReader:
        """A reader for a new request."""
        ...

    def take_back(self, reader: RequestReader) -> None:
        """Return a reader whose requests are complete."""

    def count(self, cause: str) -> None:
        """A client was refused."""


class Connection(Deadline):
    """Serves one client: requests that arrive together are answered one after the other.

    While one is in progress the next is not parsed: at most one read is buffered, and reading stops. A client that
    closes its sending side counts as gone: it looks like a close, and a stream without a reader costs an engine.
    """

    __slots__ = (
        "_ahead",
        "_exchange",
        "_loop",
        "_memory",
        "_paused",
        "_peer",
        "_reader",
        "_server",
        "_serving",
        "_transport",
        "_unread",
        "closing",
    )

    def __init__(self, server: Owner, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._memory = RepeatedHeads()
        self._reader: RequestReader | None = None
        self._exchange: Exchange | None = None
        self._ahead: tuple[bytes, int] | None = None
        super().__init__()
        self._peer = ""
        self._paused = False
        self._serving = False
        self._unread = 0
        self.closing = False
        """Read no request after the current one."""

    @property
    def idle(self) -> bool:
        """Whether no request is being read or answered."""
        return self._exchange is None and not self._unread and (self._reader is None or self._reader.state == IDLE)

    # Called by the transport -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its bases
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else ""
        self._transport.set_write_buffer_limits(high=self._server.limits.write_buffer_bytes)
        if not self._server.join(self):
            self._refuse(FULL)

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        if self._unread:
            self._drop(data)
        elif self._exchange is not None or self._ahead is not None or self._paused:
            self._keep(data)
        else:
            self._read(data, now())
            self._serve()

    def eof_received(self) -> None:
        """The client has closed its sending side, which counts as a disconnect."""
        if self._exchange is not None:
            self._transport.abort()
        self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._leave()
        if self._reader is not None:
            self._reader.close()
        if self._ahead is not None:
            self.freed(len(self._ahead[0]))
        self._server.leave(self)

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._paused = True
        self.since = 0
        if self._exchange is not None and self._exchange.flow is not None:
            self._exchange.flow(False)

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._paused = False
        self.since = 0
        if self._exchange is None:
            self._serve()
        elif self._exchange.flow is not None:
            self._exchange.flow(True)

    # Called by the exchange ------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send."""
        self._transport.write(data)

    def soon(self, call: Callable[[], None]) -> None:
        """Call in the loop's next turn."""
        self._loop.call_soon(call)

    def over(self) -> None:
        """The answer is complete: close, or continue with what has arrived meanwhile."""
        exchange = self._part()
        self.since = 0
        if exchange.keep_alive and not self.closing:
            self._serve()
        else:
            self._close()

    def cut(self, clean: bool) -> None:
        """Close before the end of an answer; by a reset where a close would look like a complete one."""
        self._part()
        if clean:
            self._close()
        else:
            _reset(self._transport)

    def freed(self, size: int) -> None:
        """Release `size` bytes of buffered bodies."""
        self._server.bodies.held -= size

    def keeps(self, size: int) -> bool:
        """Reserve `size` more bytes, if there is room."""
        bodies = self._server.bodies
        fits = bodies.fits(size)
        if fits:
            bodies.held += size
        return fits

    # Called by the server --------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Finish the current answer, and close."""
        if self.idle:
            self._close()
        self.closing = True

    def dismiss(self) -> None:
        """Answer 503 where an answer has not begun; and close."""
        exchange = self._exchange
        if exchange is not None:
            if exchange.gone is not None:
                exchange.gone()
            if exchange.started:
                exchange.cut()
            else:
                exchange.answer(
                    DOWN.status, self._server.refused(exchange.path, DOWN.status, DOWN.reason), headers=DOWN.headers
                )
        elif self.idle or self._transport.is_closing():
            self._close()
        elif not self._unread:
            self._refuse(DOWN)

    def abort(self) -> None:
        """Close at once."""
        self._leave()
        self._transport.abort()

    def sweep(self, at: int) -> None:
        """Act on an expired deadline."""
        limits, reader = self._server.limits, self._reader
        if self._exchange is not None or self._unread or self._transport.is_closing():
            limit_s = limits.linger_s if self._unread else limits.read_s
            if (self._paused or self._exchange is None) and self.waits(at, limit_s):
                if not self._unread:
                    self._server.count("read_timeout")
                self.abort()
        elif reader is None or reader.state == IDLE:
            if self.waits(at, limits.idle_s):
                self._close()
        elif reader.state == HEAD:
            if self.waits(at, limits.head_s):
                self._refuse(SLOW_HEAD)
        elif self.waits(at, limits.body_s + reader.received / limits.body_rate):
            self._refuse(SLOW_BODY)

    # Inside ----------------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Hand over requests that are ready, one at a time; answers given at once are a loop here, not a recursion."""
        if self._serving or self._unread:
            return
        self._serving = True
        while self._exchange is None and not self._paused and not self._transport.is_closing():
            reader = self._reader
            if reader is not None and reader.ready:
                self._begin(self._take(reader))
            elif reader is not None and reader.refusal is not None:
                self._refuse(reader.refusal)
                break
            elif self._ahead is not None:
                (data, at), self._ahead = self._ahead, None
                self.freed(len(data))
                self._transport.resume_reading()
                self._read(data, at)
            else:
                if reader is not None and reader.expects:
                    reader.expects = False
                    self._transport.write(CONTINUE)
                break
        self._serving = False

    def _read(self, data: bytes, at: int) -> None:
        """Feed a reader; it is lent for as long as a request is being read."""
        reader = self._reader
        if reader is None:
            reader = self._reader = self._server.lend()
            reader.memory = self._memory
        if reader.state == IDLE:
            self.since = 0
        reader.feed(data, at)

    def _take(self, reader: RequestReader) -> Exchange:
        """The first request that is ready; an empty reader is returned to the server."""
        exchange = reader.ready.pop(0)
        if reader.state == IDLE and not reader.ready and exchange.keep_alive and reader.refusal is None:
            self._reader = None
            self._server.take_back(reader)
        return exchange

    def _begin(self, exchange: Exchange) -> None:
        """Hand one request to the handler."""
        self._exchange = exchange
        self._server.open += 1
        exchange.join(self, self._peer)
        try:
            self._server.handler(exchange)
        except Exception as error:
            self._loop.call_exception_handler(
                {"message": f"the handler failed on {exchange!r}", "exception": error, "protocol": self}
            )
            self._apologise(exchange)

    def _apologise(self, exchange: Exchange) -> None:
        if exchange.started:
            exchange.cut()
        else:
            exchange.answer(500, self._server.refused(exchange.path, 500, "the server failed"))

    def _refuse(self, refusal: Refusal) -> None:
        """Send the refusal, and close; what the client still sends is read for a while, or a reset would discard it."""
        server = self._server
        server.count(refusal.cause)
        body = refusal.body or server.refused(self._path(), refusal.status, refusal.reason)
        headers = [(b"content-type", b"application/json"), *refusal.headers]
        tail = b"\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        self._transport.write(reply_head(refusal.status, headers, tail) + body)
        self.closing = True
        self.since = 0
        self._unread = max(server.limits.linger_bytes, 1)
        if refusal is FULL or not self._transport.can_write_eof():
            self._transport.close()
        else:
            self._transport.write_eof()

    def _path(self) -> str:
        """The path of the request that is being read, "" if none is known."""
        return self._reader.target.decode("latin-1") if self._reader is not None else ""

    def _keep(self, data: bytes) -> None:
        """Buffer pipelined bytes; without room for them this connection ends with the current answer."""
        bodies = self._server.bodies
        self._transport.pause_reading()
        if not bodies.fits(len(data)):
            self.closing = True
            return
        bodies.held += len(data)
        if self._ahead is not None:
            data = self._ahead[0] + data
        self._ahead = (data, now())

    def _drop(self, data: bytes) -> None:
        """Read and discard what a refused client still sends, up to a bound, so that it sees the error."""
        self._unread -= len(data)
        if self._unread <= 0:
            self._transport.abort()

    def _close(self) -> None:
        self.closing = True
        self.since = 0
        self._transport.close()

    def _leave(self) -> None:
        """The client has disconnected: notify the handler, once."""
        if self._exchange is not None:
            self._part().leave()

    def _part(self) -> Exchange:
        """The current exchange has ended."""
        exchange, self._exchange = self._exchange, None
        assert exchange is not None
        self._server.open -= 1
        self.freed(len(exchange.body) + exchange.more)
        return exchange


def _reset(transport: asyncio.Transport) -> None:
    """Close so that the other side sees an error: a plain close is how an answer without a length ends."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
