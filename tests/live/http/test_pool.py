from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from pathlib import Path

import pytest

from poise.live.http import Address, Call, Exchange, Failure, Pool, PoolLimits, Server
from tests.live.http.conftest import Run
from tests.live.http.kit import Listener, engine, request, serving
from tests.live.http.test_server import _contexts
from tests.patience import until

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
OK = b"HTTP/1.1 200 OK\r\n"


async def _ask(pool: Pool, method: bytes = b"POST", body: bytes = b"{}") -> Listener:
    """Send, and hear the answer to its end."""
    listener = Listener()
    pool.send(method, b"/v1", [(b"x-y", b"z")], body, listener)
    await listener.over
    return listener


def _failure(listener: Listener) -> tuple[str, bool]:
    assert listener.why is not None
    return listener.why.kind, listener.why.answered


def test_requests_and_answers_on_one_connection(run: Run) -> None:
    async def main() -> None:
        heads: list[bytes] = []

        async def script(reader: Reader, writer: Writer) -> None:
            while True:
                first, body = await request(reader)
                heads.append(first)
                writer.write(OK + b"keep-alive: timeout=5\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

        async with engine(script) as port:
            pool = Pool(Address("127.0.0.1", port))
            for each in range(5):
                listener = await _ask(pool, body=b"%d" % each)
                assert (listener.status, listener.headers, listener.body) == (
                    200,
                    [(b"content-length", b"1")],
                    b"%d" % each,
                )
            assert (pool.connections, pool.idle) == (1, 1)
            assert heads[0] == b"POST /v1 HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nx-y: z\r\ncontent-length: 1\r\n\r\n" % port
            await pool.close()
            assert pool.connections == 0

    run(main())


def test_the_latest_connection_is_used_first(run: Run) -> None:
    async def main() -> None:
        places: list[int] = []

        async def script(reader: Reader, writer: Writer) -> None:
            place = len(places)
            while True:
                await request(reader)
                places.append(place)
                if place < 2:
                    await both.wait()
                writer.write(OK + b"content-length: 0\r\n\r\n")

        both = asyncio.Event()
        async with engine(script) as port:
            pool = Pool(Address("127.0.0.1", port))
            first, second = Listener(), Listener()
            pool.send(b"GET", b"/", [], b"", first)
            pool.send(b"GET", b"/", [], b"", second)
            while len(places) < 2:
                await asyncio.sleep(0)
            both.set()
            await asyncio.gather(first.over, second.over)
            assert pool.connections == pool.idle == 2
            for _ in range(5):
                await _ask(pool)
            assert len(set(places[2:])) == 1 and pool.connections == 2
            await pool.close()

    run(main())


@pytest.mark.parametrize(
    ("method", "answer", "body", "kept"),
    [
        (b"POST", OK + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", b"abc", True),
        (b"POST", OK + b"\r\nuntil the end", b"until the end", False),
        (b"POST", b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", b"x", False),
        (b"POST", OK + b"connection: close\r\ncontent-length: 1\r\n\r\nx", b"x", False),
        (b"POST", b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length: 1\r\n\r\nx", b"x", True),
        (b"HEAD", OK + b"content-length: 100\r\n\r\n", b"", False),
        (b"POST", OK + b"content-length: 1\r\n\r\nxSURPRISE", b"x", False),
        (b"POST", OK + b"content-length: 0\r\n\r\n" + OK + b"content-length: 4\r\n\r\nevil", b"", False),
        (b"POST", b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
    ],
)
def test_answers_of_every_framing(run: Run, method: bytes, answer: bytes, body: bytes, kept: bool) -> None:
    async def main() -> None:
        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            writer.write(answer)
            if b"length" in answer or b"chunked" in answer or b"204" in answer:
                await reader.read()  # leave the closing to the other side

        async with engine(script) as port:
            pool = Pool(Address("127.0.0.1", port))
            listener = await _ask(pool, method)
            assert listener.why is None and listener.body == body and pool.idle == kept
            await pool.close()

    run(main())


def test_an_answer_is_heard_as_it_comes(run: Run) -> None:
    async def main() -> None:
        go = asyncio.Event()

        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            writer.write(OK + b"transfer-encoding: chunked\r\n\r\n")
            for each in range(5):
                await go.wait()
                go.clear()
                writer.write(b"2\r\n%d,\r\n" % each)
            await go.wait()
            writer.write(b"0\r\n\r\n")

        async with engine(script) as port:
            pool, listener = Pool(Address("127.0.0.1", port)), Listener()
            call = pool.send(b"GET", b"/", [], b"", listener)
            await listener.begun.wait()
            assert call.answered and not listener.parts
            for each in range(5):
                listener.came.clear()
                go.set()
                await listener.came.wait()
                assert listener.parts[-1] == b"%d," % each and len(listener.parts) == each + 1
            go.set()
            await listener.over
            await pool.close()

    run(main())


# Failures ------------------------------------------------------------------------------------------------------------


def test_a_port_without_a_listener_refuses(run: Run) -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound, but not listening
            pool = Pool(Address("127.0.0.1", taken.getsockname()[1]))
            assert _failure(await _ask(pool)) == ("refused", False)
            await pool.close()

    run(main())


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 70, "a..b"])
def test_no_such_host(run: Run, host: str) -> None:
    async def main() -> None:
        pool = Pool(Address(host, 80))
        listener = await _ask(pool)
        assert _failure(listener) == ("dns", False)
        assert listener.why is not None and host in listener.why.reason
        await pool.close()

    run(main())


def test_a_connection_that_never_opens(run: Run) -> None:
    async def main() -> None:
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            port = full.getsockname()[1]
            fillers = [socket.socket() for _ in range(3)]
            for each in fillers:  # the queue of those to be accepted is full, so the next waits
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
            pool = Pool(Address("127.0.0.1", port), PoolLimits(connect_s=0.05))
            assert _failure(await _ask(pool)) == ("timeout", False)
            await pool.close()
            for each in fillers:
                each.close()

    run(main())


@pytest.mark.parametrize(
    ("answer", "kind", "answered"),
    [
        (b"", "cut", False),
        (b"HTTP/1.1 20", "cut", True),
        (OK + b"content-length: 5\r\n\r\nhalf", "cut", True),
        (OK + b"transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", "cut", True),
        (b"220 smtp.example ESMTP\r\n", "garbage", True),
        (OK + b"content-length: 5\r\ncontent-length: 6\r\n\r\n", "garbage", True),
        (OK + b"transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nnonsense\r\n", "garbage", True),
        (b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", "garbage", True),
    ],
)
def test_answers_that_fail(run: Run, answer: bytes, kind: str, answered: bool) -> None:
    async def main() -> None:
        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            writer.write(answer)

        async with engine(script) as port:
            pool = Pool(Address("127.0.0.1", port))
            assert _failure(await _ask(pool)) == (kind, answered)
            assert pool.idle == 0
            await pool.close()

    run(main())


@pytest.mark.parametrize("answer", [b"", OK + b"\r\nhalf"])
def test_a_connection_that_breaks(run: Run, answer: bytes) -> None:
    async def main() -> None:
        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            writer.write(answer)
            await go.wait()
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

        go = asyncio.Event()
        async with engine(script) as port:
            pool, listener = Pool(Address("127.0.0.1", port)), Listener()
            pool.send(b"GET", b"/", [], b"", listener)
            if answer:
                await listener.begun.wait()
            go.set()
            await listener.over
            assert _failure(listener) == ("reset", bool(answer))
            await pool.close()

    run(main())


@pytest.mark.parametrize("reset", [False, True])
def test_a_kept_connection_that_was_closed_is_stale(run: Run, reset: bool) -> None:
    """The engine closes when the second request comes: that is how a keep-alive that ran out looks from here."""

    async def main() -> None:
        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            writer.write(OK + b"content-length: 0\r\n\r\n")
            await reader.read(1)
            if reset:
                writer.transport.abort()

        async with engine(script) as port:
            pool = Pool(Address("127.0.0.1", port))
            assert (await _ask(pool)).why is None
            assert _failure(await _ask(pool)) == ("stale", False)
            assert (await _ask(pool)).why is None, "a fresh connection"
            await pool.close()

    run(main())


@pytest.mark.parametrize("rest", [b"", b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"])
def test_a_kept_connection_that_closes_or_sends_unrequested_bytes_is_not_used_again(run: Run, rest: bytes) -> None:
    async def main() -> None:
        reported = asyncio.Event()

        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            writer.write(OK + b"content-length: 0\r\n\r\n")
            await reported.wait()
            writer.write(rest)

        async with engine(script) as port:
            pool = Pool(Address("127.0.0.1", port))
            await _ask(pool)
            assert pool.idle == 1
            reported.set()
            while pool.connections:
                await asyncio.sleep(0)
            assert pool.idle == 0
            assert (await _ask(pool)).why is None
            await pool.close()

    run(main())


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b"", Failure("timeout", "no answer in 0.02 s", False)),
        (OK + b"\r\nx", Failure("timeout", "nothing came for 0.02 s", True)),
        (OK + b"content-length: 0\r\n\r\n", None),
    ],
)
def test_times(run: Run, answer: bytes, outcome: Failure | None) -> None:
    async def main() -> None:
        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            writer.write(answer)
            await reader.read()

        async with engine(script) as port:
            pool = Pool(Address("127.0.0.1", port), PoolLimits(head_s=0.02, stall_s=0.02, idle_s=0.02))
            assert (await _ask(pool)).why == outcome
            await until(lambda: not pool.connections)
            assert pool.idle == 0
            await pool.close()

    run(main())


# Called off, and paused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["opening", "waiting", "hearing"])
def test_a_call_that_is_cancelled_is_closed_and_hears_no_more(run: Run, when: str) -> None:
    async def main() -> None:
        requested, left = asyncio.Event(), asyncio.Event()

        async def script(reader: Reader, writer: Writer) -> None:
            try:
                await request(reader)
                requested.set()
                if when == "hearing":
                    writer.write(OK + b"\r\nx")
                assert await reader.read() == b""
            finally:
                left.set()

        async with engine(script) as port:
            pool, listener = Pool(Address("127.0.0.1", port)), Listener()
            call = pool.send(b"GET", b"/", [], b"", listener)
            if when == "waiting":
                await requested.wait()
            elif when == "hearing":
                await listener.came.wait()
            call.cancel()
            call.cancel()
            if when != "opening":
                await left.wait()
            while pool.connections:
                await asyncio.sleep(0)
            assert not listener.over.done() and call.over
            await pool.close()

    run(main())


def test_a_listener_may_call_off_in_the_middle(run: Run) -> None:
    async def main() -> None:
        calls: list[Call] = []

        class Fickle(Listener):
            def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
                super().head(status, headers)
                calls[0].cancel()

        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            writer.write(OK + b"content-length: 1\r\n\r\nx")
            await reader.read()

        async with engine(script) as port:
            pool, listener = Pool(Address("127.0.0.1", port)), Fickle()
            calls.append(pool.send(b"GET", b"/", [], b"", listener))
            await listener.begun.wait()
            while pool.connections:
                await asyncio.sleep(0)
            assert listener.status == 200 and not listener.parts and not listener.over.done() and pool.idle == 0
            await pool.close()

    run(main())


def test_the_end_may_send_again_on_the_same_connection(run: Run) -> None:
    async def main() -> None:
        seen: list[int] = []
        done = asyncio.Event()

        class Again(Listener):
            def end(self) -> None:
                if len(seen) < 5:
                    seen.append(pool.connections)
                    pool.send(b"GET", b"/", [], b"", Again())
                else:
                    done.set()

        async with serving(lambda exchange: exchange.answer(200, b"")) as (server, port):
            pool = Pool(Address("127.0.0.1", port))
            pool.send(b"GET", b"/", [], b"", Again())
            await done.wait()
            assert seen == [1] * 5 and server.accepted == 1
            await pool.close()

    run(main())


def test_a_pause_holds_the_engine_back(run: Run) -> None:
    async def main() -> None:
        sent, stuck = [0], asyncio.Event()

        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            writer.write(OK + b"\r\n")
            while sent[0] < 50_000_000:
                writer.write(bytes(100_000))
                sent[0] += 100_000
                try:
                    await asyncio.wait_for(writer.drain(), 0.3)
                except TimeoutError:
                    stuck.set()
                    await writer.drain()

        async with engine(script) as port:
            pool, listener = Pool(Address("127.0.0.1", port)), Listener()
            call = pool.send(b"GET", b"/", [], b"", listener)
            await listener.begun.wait()
            call.pause()
            await stuck.wait()
            held, before = sent[0], len(listener.body)
            assert held < 20_000_000 and before < 2_000_000
            call.resume()
            await listener.over
            assert len(listener.body) == sent[0] == 50_000_000
            await pool.close()

    run(main())


def test_closing_the_pool_fails_what_is_under_way(run: Run) -> None:
    async def main() -> None:
        requested = asyncio.Event()

        async def script(reader: Reader, writer: Writer) -> None:
            await request(reader)
            requested.set()
            await reader.read()

        async with engine(script) as port:
            pool = Pool(Address("127.0.0.1", port))
            waiting, opening = Listener(), Listener()
            pool.send(b"GET", b"/", [], b"", waiting)
            await requested.wait()
            pool.send(b"GET", b"/", [], b"", opening)
            await pool.close()
            assert _failure(waiting) == _failure(opening) == ("cut", False)
            assert pool.connections == 0

    run(main())


def test_tls(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        def handler(exchange: Exchange) -> None:
            exchange.answer(200, exchange.body)

        ours, theirs = _contexts(tmp_path)
        server = Server(handler)
        port = await server.listen("127.0.0.1", 0, ours)
        trusting, wary = Pool(Address("127.0.0.1", port, True), tls=theirs), Pool(Address("127.0.0.1", port, True))
        for _ in range(2):
            assert (await _ask(trusting)).body == b"{}"
        assert trusting.connections == 1
        listener = await _ask(wary)
        assert _failure(listener) == ("refused", False)
        assert listener.why is not None and "certificate" in listener.why.reason.lower()
        for pool in (trusting, wary):
            await pool.close()
        await server.drain(1)

    assert ssl.HAS_SNI
    run(main())


def test_a_certificate_must_carry_the_name_that_the_user_gave(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        hosts: list[bytes | None] = []
        requests: list[str | None] = []

        def handler(exchange: Exchange) -> None:
            hosts.append(exchange.header(b"host"))
            exchange.answer(200, b"")

        ours, theirs = _contexts(tmp_path, "DNS:engines.test")
        ours.sni_callback = lambda sock, name, context: requests.append(name)
        server = Server(handler)
        port = await server.listen("127.0.0.1", 0, ours)
        named = Pool(Address("127.0.0.1", port, True, "engines.test"), tls=theirs)
        others = [Pool(Address("127.0.0.1", port, True, name), tls=theirs) for name in ("", "other.test")]
        assert (await _ask(named)).status == 200
        assert hosts == [b"engines.test:%d" % port] and requests == ["engines.test"]
        for pool in others:
            assert _failure(await _ask(pool)) == ("refused", False)
        for pool in (named, *others):
            await pool.close()
        await server.drain(1)

    run(main())


def test_a_name_is_not_followed_to_where_nothing_is_sent(run: Run) -> None:
    async def main() -> None:
        async with serving(lambda exchange: exchange.answer(200, b"")) as (server, port):
            address = Address("localhost", port)
            judged: list[str] = []

            def never(host: str) -> str:
                judged.append(host)
                return "it is a trap"

            strict, free = Pool(address, forbidden=never), Pool(address, forbidden=lambda host: "")
            listener = await _ask(strict)
            assert _failure(listener) == ("dns", False) and listener.why is not None
            assert "127.0.0.1 (it is a trap)" in listener.why.reason and "127.0.0.1" in judged and not server.accepted
            assert (await _ask(free)).status == 200
            for pool in (strict, free):
                await pool.close()

    run(main())


def test_a_host_is_written_as_it_is_addressed() -> None:
    def host(address: Address) -> bytes:
        return Pool(address)._host

    assert host(Address("engine", 80)) == b"engine" and host(Address("engine", 443)) == b"engine:443"
    assert host(Address("engine", 443, True)) == b"engine" and host(Address("::1", 8000)) == b"[::1]:8000"


def test_a_pool_may_be_closed_unused(run: Run) -> None:
    async def main() -> None:
        pool = Pool(Address("127.0.0.1", 9))
        await pool.close()

    run(main())
