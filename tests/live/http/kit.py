"""Clients, engines and transports for tests of the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from poise.live.http import Call, Exchange, Failure, Limits, Pool, Server

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class FakeTransport:
    """Keeps what is written, and what was asked of it."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = self.aborted = self.half_closed = False
        self.reading = True
        self.high = 0

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)

    def write(self, data: bytes) -> None:
        assert not self.is_closing(), "written after the end"
        self.writes.append(bytes(data))

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def write_eof(self) -> None:
        self.half_closed = True

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.closed or self.aborted

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.9", 1) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high


class FakeLoop:
    """Calls what was put off when it is told to."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.errors: list[dict[str, Any]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)

    def turn(self) -> None:
        calls, self.soon = self.soon, []
        for call in calls:
            call()


class Listener:
    """Hears an answer, and keeps it."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.parts: list[bytes] = []
        self.why: Failure | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.begun = asyncio.Event()
        self.came = asyncio.Event()

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        assert not self.status and not self.over.done()
        self.status, self.headers = status, headers
        self.begun.set()

    def data(self, data: bytes) -> None:
        assert self.status and data and not self.over.done()
        self.parts.append(data)
        self.came.set()

    def end(self) -> None:
        assert self.status
        self.over.set_result(None)  # raises if it was told before

    def failed(self, why: Failure) -> None:
        self.why = why
        self.over.set_result(None)


class Relay:
    """Passes an engine's answer on to a client: the least that a gateway does."""

    def __init__(self, exchange: Exchange, pool: Pool) -> None:
        self.exchange = exchange
        exchange.gone, exchange.flow = self.gone, self.flow
        self.why: Failure | None = None
        self.call: Call = pool.send(exchange.method.encode(), exchange.target, exchange.headers, exchange.body, self)

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.exchange.start(status, headers)

    def data(self, data: bytes) -> None:
        self.exchange.write(data)

    def end(self) -> None:
        self.exchange.end()

    def failed(self, why: Failure) -> None:
        self.why = why
        if self.exchange.started:
            self.exchange.cut()
        else:
            self.exchange.answer(502, why.kind.encode())

    def gone(self) -> None:
        self.call.cancel()

    def flow(self, on: bool) -> None:
        if on:
            self.call.resume()
        else:
            self.call.pause()


@asynccontextmanager
async def serving(
    handler: Callable[[Exchange], None],
    limits: Limits = Limits(),  # noqa: B008
) -> AsyncIterator[tuple[Server, int]]:
    """A server on a free port, drained at the end."""
    server = Server(handler, limits)
    port = await server.listen("127.0.0.1", 0)
    try:
        yield server, port
    finally:
        await server.drain(0)


@asynccontextmanager
async def engine(script: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[int]:
    """A listener that plays `script` to each connection and closes it at the end; yields its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            await closed(writer)
            tasks.discard(task)

    server = await asyncio.start_server(play, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Streams]:
    """A client's connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close a stream, whatever state it is in."""
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def head(reader: asyncio.StreamReader) -> bytes:
    """One head, with its empty line."""
    return await reader.readuntil(b"\r\n\r\n")


async def request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """One request with a length: its head and its body."""
    first = await head(reader)
    for line in first.split(b"\r\n"):
        name, _, value = line.partition(b": ")
        if name == b"content-length":
            return first, await reader.readexactly(int(value))
    return first, b""


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """One answer with a length: its status and its body."""
    first, body = await request(reader)
    return int(first[9:12]), body
