"""The server side of HTTP/1.1: listens, hands whole requests to one handler, and drains."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from typing import cast

from poise.live.http.bodies import Bodies
from poise.live.http.connection import Connection
from poise.live.http.exchange import Exchange
from poise.live.http.limits import Limits
from poise.live.http.refuse import Gate, plain
from poise.live.http.request import RequestReader
from poise.live.http.sweep import DeadlineTimer, period

SPARE = 64
"""Readers that are kept for reuse."""

LATE_S = 0.5
"""Seconds for the request of a client that connects as the server stops listening."""


class Server:
    """Calls `handler` with each request that is complete; the handler answers at once or later, on the loop's thread.

    refused: makes the JSON body of an error that this layer answers itself, from its path, status and reason.
    gate: refuses requests by their heads, before their bodies are read and before `100 Continue`.
    open: running exchanges.  connections: of clients, at present.  accepted: connections in total.
    causes: how many clients were refused, by reason.  bodies: buffered bytes of requests' bodies.
    """

    def __init__(
        self,
        handler: Callable[[Exchange], None],
        limits: Limits = Limits(),  # noqa: B008  # frozen
        refused: Callable[[str, int, str], bytes] = plain,
        gate: Gate | None = None,
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.refused = refused
        self.gate = gate
        self.bodies = Bodies(limits.bodies_bytes)
        self.open = 0
        self.accepted = 0
        self.causes: Counter[str] = Counter()
        self._readers: list[RequestReader] = []
        self._connections: set[Connection] = set()
        self._sockets: list[asyncio.Server] = []
        self._draining = False
        self._empty: asyncio.Future[None] | None = None
        waits = (limits.head_s, limits.body_s, limits.idle_s, limits.read_s, limits.linger_s)
        self._sweep = DeadlineTimer(self._connections, period(*waits))

    @property
    def connections(self) -> int:
        """Clients connected at present."""
        return len(self._connections)

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None, several: bool = False) -> int:
        """Accept connections at `host`; returns the port, which the system chooses for 0.

        several: other processes listen on the same port, and the system spreads connections over all.
        """
        loop = asyncio.get_running_loop()
        socket = await loop.create_server(
            lambda: cast(asyncio.Protocol, Connection(self, loop)),
            host,
            port,
            ssl=tls,
            backlog=4096,
            reuse_port=several or None,
        )
        self._sockets.append(socket)
        self._sweep.start()
        return int(socket.sockets[0].getsockname()[1])

    async def drain(self, grace_s: float, last: Callable[[], None] | None = None) -> bool:
        """Accept no more, close idle connections, let running answers end, and cut those that outlast `grace_s`.

        last: called when the grace is over; it ends the handler's requests. Then clients that are still connected are
        answered 503, and have `Limits.linger_s` to read it. Without it they are cut at once.
        True if all ended in time. An answer that has not begun says `connection: close`.
        """
        await asyncio.sleep(0)  # connections already accepted by the system are read first
        self._draining = True
        for socket in self._sockets:
            socket.close()
        await asyncio.sleep(0)
        for connection in list(self._connections):
            connection.finish()
        in_time = await self._emptied(grace_s)
        if not in_time:
            if last is not None:
                last()
                for connection in list(self._connections):
                    connection.dismiss()
                await self._emptied(self.limits.linger_s)
            for connection in list(self._connections):
                connection.abort()
            await self._emptied(None)
        self._sweep.stop()
        while self._readers:
            self._readers.pop().close()
        return in_time

    async def _emptied(self, within_s: float | None) -> bool:
        if self._connections:
            self._empty = asyncio.get_running_loop().create_future()
            try:
                await asyncio.wait_for(self._empty, within_s)
            except TimeoutError:
                return False
        return True

    def change(self, limits: Limits, gate: Gate | None) -> None:
        """Apply these limits from now on; a request that is being read ends under those it began with."""
        self.limits, self.gate = limits, gate
        self.bodies.limit = limits.bodies_bytes
        while self._readers:
            self._readers.pop().close()

    # Called by connections -------------------------------------------------------------------------------------------

    def join(self, connection: Connection) -> bool:
        """A client connects; False if it is one too many."""
        fits = len(self._connections) < self.limits.connections
        self._connections.add(connection)
        self.accepted += 1
        if self._draining:  # its request may be on its way: it is read, to be answered that it is too late
            connection.closing = True
            asyncio.get_running_loop().call_later(LATE_S, connection.finish)
        return fits

    def leave(self, connection: Connection) -> None:
        """A client has disconnected."""
        self._connections.discard(connection)
        if self._empty is not None and not self._connections and not self._empty.done():
            self._empty.set_result(None)

    def lend(self) -> RequestReader:
        """A reader for a new request: a connection without one, idle or waiting, takes half the memory."""
        return self._readers.pop() if self._readers else RequestReader(self.limits, self.bodies, self.gate)

    def take_back(self, reader: RequestReader) -> None:
        """Return a reader whose requests are complete."""
        if len(self._readers) < SPARE and reader.follows(self.limits, self.gate):
            self._readers.append(reader)

    def count(self, cause: str) -> None:
        """A client was refused."""
        self.causes[cause] += 1
