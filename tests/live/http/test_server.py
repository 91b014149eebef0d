from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from poise.live.http import Exchange, Limits, Server
from tests.live.http.conftest import Run
from tests.live.http.kit import answer, closed, connected, head, serving

GET = b"GET /%d HTTP/1.1\r\nhost: g\r\n\r\n"


def _echo(exchange: Exchange) -> None:
    exchange.answer(200, exchange.path.encode() + exchange.body)


def test_requests_on_one_connection(run: Run) -> None:
    async def main() -> None:
        async with serving(_echo) as (server, port), connected(port) as (reader, writer):
            for each in range(3):
                writer.write(GET % each)
                assert await answer(reader) == (200, b"/%d" % each)
            writer.write(GET % 3 + GET % 4 + GET % 5)
            assert [await answer(reader) for _ in range(3)] == [(200, b"/%d" % each) for each in (3, 4, 5)]
            assert (server.accepted, server.open, server.connections) == (1, 0, 1)

    run(main())


def test_a_body_of_many_reads(run: Run) -> None:
    async def main() -> None:
        body = bytes(range(256)) * 8000
        async with serving(_echo) as (_, port), connected(port) as (reader, writer):
            writer.write(b"POST /b HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            assert await answer(reader) == (200, b"/b" + body)
            writer.write(b"POST /c HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n")
            for at in range(0, len(body), 50_000):
                part = body[at : at + 50_000]
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            writer.write(b"0\r\n\r\n")
            assert await answer(reader) == (200, b"/c" + body)

    run(main())


def test_no_chunk_waits_for_the_next(run: Run) -> None:
    """Each is read before the next is written: with Nagle's algorithm or a buffer in between this takes for ever."""

    async def main() -> None:
        exchanges: asyncio.Queue[Exchange] = asyncio.Queue()
        async with serving(exchanges.put_nowait) as (_, port), connected(port) as (reader, writer):
            writer.write(GET % 0)
            exchange = await exchanges.get()
            exchange.start(200, [])
            assert b"chunked" in await head(reader)
            for each in range(50):
                exchange.write(b"%03d" % each)
                assert await reader.readexactly(8) == b"3\r\n%03d\r\n" % each
            exchange.end()
            assert await reader.readexactly(5) == b"0\r\n\r\n"

    run(main())


def test_small_writes_leave_at_once(run: Run) -> None:
    async def main() -> None:
        options: list[int] = []

        def handler(exchange: Exchange) -> None:
            transport = exchange._line._transport  # type: ignore[union-attr]
            options.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            exchange.answer(200, b"")

        async with serving(handler) as (_, port), connected(port) as (reader, writer):
            writer.write(GET % 0)
            await answer(reader)
        assert options[0] != 0

    run(main())


def test_a_client_is_sent_100_continue_for_the_body_it_offers(run: Run) -> None:
    async def main() -> None:
        async with serving(_echo, Limits(body_bytes=100)) as (_, port):
            async with connected(port) as (reader, writer):
                writer.write(b"POST /e HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
                assert await head(reader) == b"HTTP/1.1 100 Continue\r\n\r\n"
                writer.write(b"ok")
                assert await answer(reader) == (200, b"/eok")
            async with connected(port) as (reader, writer):
                writer.write(b"POST /e HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: 101\r\n\r\n")
                assert (await answer(reader))[0] == 413, "before a byte of the body"

    run(main())


def test_a_hundred_megabytes_are_refused_unread(run: Run) -> None:
    async def main() -> None:
        async with serving(_echo) as (server, port), connected(port) as (reader, writer):
            writer.write(b"POST / HTTP/1.1\r\nhost: g\r\ncontent-length: 100000000\r\n\r\n")
            pending = asyncio.ensure_future(answer(reader))
            sent, part = 0, bytes(1_000_000)
            with suppress(ConnectionError):
                while sent < 100:
                    writer.write(part)
                    await writer.drain()
                    sent += 1
            assert sent < 50 and (await pending)[0] == 413
            assert server.causes == {"body": 1}

    run(main())


@pytest.mark.parametrize(
    ("sent", "status", "cause"),
    [
        (b"GET / HT", 408, "head_timeout"),
        (b"POST / HTTP/1.1\r\nhost: g\r\ncontent-length: 9\r\n\r\nhalf", 408, "body_timeout"),
        (b"nonsense\r\n\r\n", 400, "malformed"),
        (b"GET / HTTP/1.1\r\nhost: g\r\nx: " + b"a" * 40_000, 431, "head"),
    ],
)
def test_refusals_are_sent_and_the_connection_closed(run: Run, sent: bytes, status: int, cause: str) -> None:
    async def main() -> None:
        async with serving(_echo, Limits(head_s=0.02, body_s=0.02)) as (server, port):
            async with connected(port) as (reader, writer):
                writer.write(sent)
                first = await head(reader)
                assert first.startswith(b"HTTP/1.1 %d " % status) and b"connection: close" in first
                body = await reader.read()
                assert body.startswith(b'{"error":{"message":"') and b'"code":%d' % status in body
            assert server.causes == {cause: 1} and server.open == 0

    run(main())


def test_an_idle_connection_is_closed(run: Run) -> None:
    async def main() -> None:
        async with serving(_echo, Limits(idle_s=0.02)) as (_, port), connected(port) as (reader, writer):
            writer.write(GET % 0)
            await answer(reader)
            assert await reader.read() == b""

    run(main())


def test_one_client_too_many(run: Run) -> None:
    async def main() -> None:
        async with serving(_echo, Limits(connections=1)) as (server, port), connected(port) as (reader, writer):
            writer.write(GET % 0)
            await answer(reader)
            async with connected(port) as (other, _):
                assert (await answer(other))[0] == 503 and await other.read() == b""
            writer.write(GET % 1)
            assert await answer(reader) == (200, b"/1")
            assert server.causes == {"connections": 1}

    run(main())


def test_five_hundred_idle_connections_harm_no_request(run: Run) -> None:
    async def main() -> None:
        async with serving(_echo) as (server, port):
            streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(500)]
            assert server.connections == 500
            for reader, writer in streams[::50]:
                writer.write(GET % 7)
                assert await answer(reader) == (200, b"/7")
            assert await server.drain(5), "idle connections are closed at once"
            assert server.connections == 0
            for _, writer in streams:
                await closed(writer)

    run(main())


@pytest.mark.parametrize("leave", ["close", "reset", "half"])
def test_a_client_that_leaves_is_reported_once(run: Run, leave: str) -> None:
    async def main() -> None:
        gone: asyncio.Queue[Exchange] = asyncio.Queue()
        exchanges: asyncio.Queue[Exchange] = asyncio.Queue()

        def handler(exchange: Exchange) -> None:
            exchange.gone = lambda: gone.put_nowait(exchange)
            exchanges.put_nowait(exchange)

        async with serving(handler) as (server, port), connected(port) as (reader, writer):
            writer.write(GET % 0)
            exchange = await exchanges.get()
            exchange.start(200, [])
            exchange.write(b"x")
            await head(reader)
            if leave == "half":
                writer.write_eof()
            elif leave == "close":
                writer.close()
            else:
                writer.transport.abort()
            assert await gone.get() is exchange
            exchange.write(b"too late")
            exchange.end()
            assert await server.drain(5) and gone.empty() and server.open == 0

    run(main())


@pytest.mark.parametrize("old", [False, True])
def test_a_cut_answer_cannot_be_taken_for_a_whole_one(run: Run, old: bool) -> None:
    async def main() -> None:
        exchanges: asyncio.Queue[Exchange] = asyncio.Queue()
        async with serving(exchanges.put_nowait) as (_, port), connected(port) as (reader, writer):
            writer.write(b"GET / HTTP/1.0\r\n\r\n" if old else GET % 0)
            exchange = await exchanges.get()
            exchange.start(200, [])
            exchange.write(b"half")
            await head(reader)
            assert b"half" in await reader.read(20)
            exchange.cut()
            if old:
                with pytest.raises(ConnectionResetError):
                    await reader.read()
            else:
                assert not (await reader.read()).endswith(b"0\r\n\r\n")

    run(main())


def test_draining_lets_answers_end_and_takes_no_new_ones(run: Run) -> None:
    async def main() -> None:
        exchanges: asyncio.Queue[Exchange] = asyncio.Queue()
        async with (
            serving(exchanges.put_nowait) as (server, port),
            connected(port) as (reader, writer),
            connected(port) as (idle, _),
            connected(port) as (late, slow),
        ):
            writer.write(GET % 0 + GET % 1)
            exchange = await exchanges.get()
            slow.write(b"POST / HTTP/1.1\r\nhost: g\r\ncontent-length: 2\r\n\r\n")
            await _until(lambda: sum(not each.idle for each in server._connections) == 2)
            drained = asyncio.ensure_future(server.drain(10))
            assert await idle.read() == b""
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            slow.write(b"ok")
            (await exchanges.get()).answer(200, b"late")
            first = await head(late)
            assert b"connection: close" in first and await late.read() == b"late"
            exchange.answer(200, b"done")
            assert b"connection: close" in await head(reader) and await reader.read() == b"done"
            assert await drained and exchanges.empty()

    run(main())


def test_draining_cuts_what_takes_too_long(run: Run) -> None:
    async def main() -> None:
        gone: list[bool] = []

        def handler(exchange: Exchange) -> None:
            exchange.gone = lambda: gone.append(True)
            exchange.start(200, [])
            exchange.write(b"x")

        async with serving(handler) as (server, port), connected(port) as (reader, writer):
            writer.write(GET % 0)
            await head(reader)
            assert not await server.drain(0.01)
            assert gone == [True] and server.connections == server.open == 0

    run(main())


def test_a_client_that_does_not_read_holds_no_more_than_the_buffer(run: Run) -> None:
    async def main() -> None:
        flows: asyncio.Queue[bool] = asyncio.Queue()
        exchanges: asyncio.Queue[Exchange] = asyncio.Queue()
        async with serving(exchanges.put_nowait, Limits(write_buffer_bytes=10_000)) as (_, port):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.sendall(GET % 0)
            exchange = await exchanges.get()
            exchange.flow = flows.put_nowait
            exchange.start(200, [])
            sent = 0
            while flows.empty():
                exchange.write(bytes(5000))
                sent += 5000
                await asyncio.sleep(0)
            assert not await flows.get() and sent < 20_000_000
            sock.setblocking(False)
            loop, got = asyncio.get_running_loop(), 0
            while flows.empty():
                got += len(await loop.sock_recv(sock, 65_536))
            assert await flows.get() and got <= sent + 20 * sent // 5000 + 200
            exchange.end()
            sock.close()

    run(main())


def test_tls(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        ours, theirs = _contexts(tmp_path)
        server = Server(_echo)
        port = await server.listen("127.0.0.1", 0, ours)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=theirs, server_hostname="localhost")
        writer.write(GET % 0 + b"GET / HTTP/9.9\r\n\r\n")
        assert await answer(reader) == (200, b"/0")
        assert (await answer(reader))[0] == 400 and await reader.read() == b""
        await closed(writer)
        await server.drain(1)

    run(main())


async def _until(true: object) -> None:
    """Let the loop turn until it is so."""
    while not true():  # type: ignore[operator]
        await asyncio.sleep(0)


def _contexts(folder: Path, names: str = "DNS:localhost,IP:127.0.0.1") -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context with a certificate of its own for these names, and that of a client who trusts it."""
    import subprocess

    key, certificate = folder / "key.pem", folder / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", f"subjectAltName={names}"]
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "9",
    ]
    subprocess.run([*made, "-keyout", key, "-out", certificate, *subject], check=True, capture_output=True)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate, key)
    return ours, ssl.create_default_context(cafile=str(certificate))
