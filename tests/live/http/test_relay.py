"""Server and pool together, as a gateway without a policy: what reaches the other side, and what does not."""

from __future__ import annotations

import asyncio
import gc
import socket
import tracemalloc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from poise.live.http import Address, Exchange, Pool, PoolLimits, Server
from tests.live.http.conftest import Run
from tests.live.http.kit import Relay, answer, connected, engine, head, request, serving
from tests.patience import until

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
POST = b"POST /v1 HTTP/1.1\r\nhost: g\r\ncontent-length: 2\r\n\r\n{}"


class Gate(NamedTuple):
    """A relay in front of one engine."""

    port: int
    server: Server
    pool: Pool
    relays: list[Relay]


@asynccontextmanager
async def relaying(
    script: Callable[[Reader, Writer], Awaitable[None]],
    waits: PoolLimits = PoolLimits(),  # noqa: B008
) -> AsyncIterator[Gate]:
    relays: list[Relay] = []
    async with engine(script) as behind:
        pool = Pool(Address("127.0.0.1", behind), waits)

        def handler(exchange: Exchange) -> None:
            relays.append(Relay(exchange, pool))

        async with serving(handler) as (server, port):
            yield Gate(port, server, pool, relays)
        await pool.close()


def test_every_chunk_passes_before_the_next_is_made(run: Run) -> None:
    async def main() -> None:
        passed = asyncio.Semaphore(0)

        async def script(reader: Reader, writer: Writer) -> None:
            while True:
                await request(reader)
                writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                for each in range(30):
                    writer.write(b"3\r\n%03d\r\n" % each)
                    await passed.acquire()
                writer.write(b"0\r\n\r\n")

        async with relaying(script) as gate, connected(gate.port) as (reader, writer):
            for _ in range(2):
                writer.write(POST)
                assert b"transfer-encoding: chunked" in await head(reader)
                for each in range(30):
                    assert await reader.readexactly(8) == b"3\r\n%03d\r\n" % each
                    passed.release()
                assert await reader.readexactly(5) == b"0\r\n\r\n"
            assert gate.pool.connections == 1 and gate.server.open == 0

    run(main())


def test_the_length_of_an_answer_is_passed_on(run: Run) -> None:
    async def main() -> None:
        async def script(reader: Reader, writer: Writer) -> None:
            _, body = await request(reader)
            writer.write(b"HTTP/1.1 418 I'm a teapot\r\nconnection: x-hop\r\nx-hop: 1\r\nx-y: z\r\n")
            writer.write(b"content-length: 2\r\n\r\n" + body)

        async with relaying(script) as gate, connected(gate.port) as (reader, writer):
            writer.write(POST)
            first = await head(reader)
            assert first == b"HTTP/1.1 418 I'm a Teapot\r\nx-y: z\r\ncontent-length: 2\r\n\r\n"
            assert await reader.readexactly(2) == b"{}"

    run(main())


@pytest.mark.parametrize("how", ["close", "abort"])
def test_the_engine_learns_that_the_client_left(run: Run, how: str) -> None:
    async def main() -> None:
        left = asyncio.Event()

        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
            try:
                await reader.read()
            finally:
                left.set()

        async with relaying(script) as gate:
            async with connected(gate.port) as (reader, writer):
                writer.write(POST)
                await head(reader)
                if how == "abort":
                    writer.transport.abort()
            await left.wait()
            assert gate.relays[0].why is None and gate.relays[0].call.over
            while gate.pool.connections:
                await asyncio.sleep(0)
            assert gate.server.open == 0

    run(main())


def test_a_fast_engine_and_a_client_that_does_not_read(run: Run) -> None:
    """Of 200 MB that the engine would send, what waits in the gateway stays within the buffer and two reads."""

    async def main() -> None:
        sent, stuck, part = [0], asyncio.Event(), bytes(200_000)

        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while sent[0] < 200_000_000:
                writer.write(part)
                sent[0] += len(part)
                try:
                    await asyncio.wait_for(writer.drain(), 0.3)
                except TimeoutError:
                    stuck.set()
                    await writer.drain()

        async with relaying(script) as gate:
            sock = socket.create_connection(("127.0.0.1", gate.port))
            sock.sendall(POST)
            tracemalloc.start()
            await stuck.wait()
            await until(lambda: gate.relays[0].call.paused)
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            transport = next(iter(gate.server._connections))._transport
            assert transport.get_write_buffer_size() < 65_536 + 2 * 262_144 + 1000
            assert held < 4_000_000 and sent[0] < 50_000_000
            sock.close()
            await until(lambda: not gate.pool.connections)
            assert gate.relays[0].call.over and gate.server.open == 0

    run(main())


def test_an_engine_that_breaks_in_the_middle_is_not_taken_for_the_end(run: Run) -> None:
    async def main() -> None:
        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n")

        async with relaying(script) as gate, connected(gate.port) as (reader, writer):
            writer.write(POST)
            await head(reader)
            assert await reader.read() == b"4\r\nhalf\r\n"
            assert gate.relays[0].why is not None and gate.relays[0].why.kind == "cut"

    run(main())


def test_an_engine_that_answers_nothing(run: Run) -> None:
    async def main() -> None:
        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            await reader.read()

        async with relaying(script, waits=PoolLimits(head_s=0.02)) as gate, connected(gate.port) as (reader, writer):
            writer.write(POST)
            assert await answer(reader) == (502, b"timeout")
            writer.write(POST)
            assert await answer(reader) == (502, b"timeout"), "the client's connection lives on"

    run(main())


def test_drain_waits_for_the_engine(run: Run) -> None:
    async def main() -> None:
        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            requested.set()
            await go.wait()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            await reader.read()

        requested, go = asyncio.Event(), asyncio.Event()
        async with relaying(script) as gate, connected(gate.port) as (reader, writer):
            writer.write(POST)
            await requested.wait()
            drained = asyncio.ensure_future(gate.server.drain(10))
            while not all(connection.closing for connection in gate.server._connections):
                await asyncio.sleep(0)
            go.set()
            first = await head(reader)
            assert b"connection: close" in first and await reader.read() == b"ok"
            assert await drained

    run(main())


def test_an_exchange_that_is_over_leaves_nothing_to_collect(run: Run) -> None:
    """Reference counts alone free a request: the collector, whose pauses a stream would feel, has nothing to do."""

    async def main() -> None:
        refs: list[weakref.ref[Relay]] = []

        async def script(reader: Reader, writer: Writer) -> None:
            while True:
                await request(reader)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

        async with relaying(script) as gate, connected(gate.port) as (reader, writer):
            gc.disable()
            try:
                for _ in range(20):
                    writer.write(POST)
                    await answer(reader)
                refs += [weakref.ref(relay) for relay in gate.relays]
                gate.relays.clear()
                assert [ref() for ref in refs] == [None] * 20
            finally:
                gc.enable()

    run(main())


def test_two_hundred_clients_at_once_lose_nothing(run: Run) -> None:
    async def main() -> None:
        async def script(reader: Reader, writer: Writer) -> None:
            while True:
                _, body = await request(reader)
                writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                for each in body.split(b","):
                    writer.write(b"%x\r\n%b\r\n" % (len(each), each))
                writer.write(b"0\r\n\r\n")

        async def client(number: int) -> None:
            async with connected(gate.port) as (reader, writer):
                for turn in range(3):
                    parts = [b"%d-%d-%d" % (number, turn, each) for each in range(5)]
                    body = b",".join(parts)
                    writer.write(b"POST / HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
                    await head(reader)
                    got = b""
                    while not got.endswith(b"\r\n0\r\n\r\n"):
                        got += await reader.read(4096)
                    assert _dechunked(got) == b"".join(parts)

        async with relaying(script) as gate:
            await asyncio.gather(*(client(number) for number in range(200)))
            assert gate.server.open == 0 and gate.server.accepted == 200
            assert gate.pool.connections <= 256

    run(main())


def _dechunked(data: bytes) -> bytes:
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        body += data[: int(size, 16)]
        data = data[int(size, 16) + 2 :]
    return body
