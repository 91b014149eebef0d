"""One connection to an engine: writes a request to its socket and passes the answer to the sender's callbacks."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from poise.live.http.call import Call, Kind
from poise.live.http.limits import PoolLimits
from poise.live.http.reply import BODY, DONE, GARBAGE, HEAD, ReplyReader
from poise.live.http.reply_memory import ReplyMemory
from poise.live.http.sweep import Deadline


class Keeper(Protocol):
    """Owns the connections to an engine, as a `Pool` does."""

    limits: PoolLimits
    memory: ReplyMemory

    def join(self, upstream: Upstream) -> None:
        """A connection is open."""

    def keep(self, upstream: Upstream) -> bool:
        """An answer is complete: True if the connection is kept."""
        ...

    def leave(self, upstream: Upstream) -> None:
        """A connection is closed."""


class Upstream(Deadline):
    """Carries one request at a time. Bytes from the engine outside an answer close the connection."""

    __slots__ = ("_call", "_given_up", "_head_passed", "_kept", "_pool", "_reader", "_transport")

    def __init__(self, pool: Keeper) -> None:
        self._pool = pool
        self._reader = ReplyReader(pool.limits.header_bytes, pool.memory)
        super().__init__()
        self._call: Call | None = None
        self._head_passed = False
        self._kept = False
        self._given_up = False

    @property
    def usable(self) -> bool:
        """Whether a request may be sent on it."""
        return self._call is None and not self._transport.is_closing()

    def begin(self, call: Call, method: bytes, request: tuple[bytes, bytes]) -> None:
        """Send a request, which is a head and a body."""
        self._call = call
        self._head_passed = False
        self.since = 0
        self._reader.begin(method)
        call.upstream = self
        if call.paused:
            self._transport.pause_reading()
        if request[1]:
            self._transport.writelines(request)
        else:
            self._transport.write(request[0])

    def drop(self) -> None:
        """Close at once, without a callback."""
        self._call = None
        self._transport.abort()

    def give_up(self) -> None:
        """The caller needs the connection no longer, whether it is open by now or not."""
        self._given_up = True
        self._pool.leave(self)

    def pause(self) -> None:
        """Read no more."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Resume reading."""
        self.since = 0
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def sweep(self, at: int) -> None:
        """Close a connection idle for too long; fail a request whose deadline has passed."""
        limits, call = self._pool.limits, self._call
        if call is None:
            if self.waits(at, limits.idle_s):
                self._transport.close()
        elif call.paused:
            self.since = 0
        elif not call.answered:
            if limits.head_s and self.waits(at, limits.head_s):
                self.fail("timeout", f"no answer in {limits.head_s:g} s")
        elif limits.stall_s and self.waits(at, limits.stall_s):
            self.fail("timeout", f"nothing came for {limits.stall_s:g} s")

    def fail(self, kind: Kind, reason: str) -> None:
        """Close, and report the failure to the request in progress."""
        call, self._call = self._call, None
        self._transport.abort()
        if call is not None:
            call.fail(kind, reason)

    # Called by the transport -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its bases
        if self._given_up:
            self._transport.abort()
        else:
            self._pool.join(self)

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        call = self._call
        if call is None:
            self._transport.abort()
            return
        reader = self._reader
        body = reader.feed(data)
        call.answered = True
        self.since = 0
        if not self._head_passed and reader.state != HEAD and reader.state != GARBAGE:
            self._head_passed = True
            call.handler.head(reader.status, reader.take_headers())
        if body and self._call is call:
            call.handler.data(body)
        if reader.state != BODY and self._call is call:
            if reader.state == DONE:
                self._done(call)
            elif reader.state == GARBAGE:
                self.fail("garbage", f"the engine's answer is not HTTP: {reader.reason}")

    def eof_received(self) -> None:
        """The engine closed its sending side: the end of an answer, or a failure."""
        call = self._call
        if call is None:
            return
        if self._reader.finish():
            self._done(call)
        elif self._kept and not call.answered:
            self.fail("stale", "a kept connection was closed before it answered")
        else:
            self.fail("cut", "the engine closed before the end of its answer")

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._pool.leave(self)
        self._reader.close()
        call, self._call = self._call, None
        if call is None:
            return
        reason = f"the connection broke: {exc or 'closed'}"
        call.fail("stale" if self._kept and not call.answered else "reset", reason)

    def _done(self, call: Call) -> None:
        """The answer is complete: keep the connection if it can be reused, then notify the sender."""
        self._call = None
        handler = call.finish()
        self.since = 0
        if call.paused:
            self.resume()
        self._kept = True
        transport = self._transport
        if not self._reader.reusable or transport.get_write_buffer_size() or not self._pool.keep(self):
            transport.abort()
        handler.end()
