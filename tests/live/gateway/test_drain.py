"""A drain that runs out: every client that is left hears so, in the form of its path, before its connection closes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from poise.live.emulator.options import Options
from poise.live.gateway.settings import Settings
from poise.live.http.limits import Limits, PoolLimits
from poise.live.http.loop import run
from poise.policies.admit.ceiling import Ceiling
from tests.live.gateway.attack import post, read_all
from tests.live.gateway.fakes import Bench
from tests.live.gateway.live import MODEL, PATIENCE_S, Live

SLOW = Options(MODEL, port=0, speed=0.01, faults=True)
"""An engine that takes minutes for what it is asked here."""
QUICK = Options(MODEL, port=0, speed=1.0, faults=True)
PATIENT = Settings(held_s=60, clients=Limits(linger_s=PATIENCE_S), engines=PoolLimits(head_s=0, stall_s=0))
DOWN = "the gateway is going down"


def chat(stream: bool, tokens: int = 4000) -> bytes:
    messages = [{"role": "user", "content": "Once upon a time"}]
    return json.dumps({"model": MODEL, "messages": messages, "max_tokens": tokens, "stream": stream}).encode()


def body(stream: bool, tokens: int = 4000) -> bytes:
    prompt = {"prompt": "Once upon a time", "input": "Once upon a time", "ignore_eos": True}
    return json.dumps({"model": MODEL, **prompt, "max_tokens": tokens, "stream": stream}).encode()


class Client:
    """A client with a connection of its own, which reads until the gateway closes."""

    def __init__(self, port: int, *pieces: bytes) -> None:
        self.received = b""
        self._port = port
        self._pieces = pieces
        self.over = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        for piece in self._pieces:
            writer.write(piece)
        async with asyncio.timeout(PATIENCE_S):
            while data := await reader.read(65_536):
                self.received += data
        writer.close()

    @property
    def status(self) -> int:
        return int(self.received.split(b" ", 2)[1])

    @property
    def message(self) -> str:
        return str(json.loads(self.received.partition(b"\r\n\r\n")[2])["error"]["message"])


async def stopped(live: Live, clients: Sequence[Client]) -> None:
    """Stop the gateway without patience, and see that all clients have been told and nothing is left."""
    assert not await live.gateway.stop(0.0)
    await asyncio.gather(*(client.over for client in clients))
    world, control = live.gateway.world, live.control
    assert (
        not world.proxied_requests and not control.flights and not control.held and not live.gateway.server.connections
    )


def test_who_has_no_byte_gets_an_answer() -> None:
    """Sent, held, streamed or not: 503 as JSON, whole, with the time after which to try again."""

    async def main() -> None:
        async with Live([SLOW], admission=[Ceiling(2)], settings=PATIENT) as live:
            clients = [Client(live.port, post(body(stream))) for stream in (True, False) * 4]
            await live.until(lambda: len(live.gateway.world.proxied_requests) == 8)
            assert len(live.control.held) == 6
            sent = sum(engine.sent for engine in live.gateway.world.fleet)
            await stopped(live, clients)
            for client in clients:
                assert client.status == 503 and DOWN in client.message and b"retry-after: 1" in client.received
            assert sum(engine.sent for engine in live.gateway.world.fleet) == sent, "none is sent as others end"

    run(main())


@pytest.mark.parametrize("path", [b"/v1/completions", b"/v1/chat/completions"])
def test_a_stream_ends_with_an_error_event(path: bytes) -> None:
    async def main() -> None:
        async with Live([QUICK], settings=PATIENT) as live:
            sent = chat(True) if b"chat" in path else body(True)
            clients = [Client(live.port, post(sent, path)) for _ in range(5)]
            await live.until(lambda: all(client.received.count(b"data: ") > 2 for client in clients))
            await stopped(live, clients)
            for client in clients:
                last = client.received.rpartition(b"data: ")[2].partition(b"\n\n")[0]
                error = json.loads(last)["error"]
                assert DOWN in error["message"] and error["code"] == 503 and b"[DONE]" not in client.received

    run(main())


def test_a_stream_of_a_stated_length_ends_with_one_too() -> None:
    """The event is longer than what is left of it, and the next client must be told all the same."""
    bench = Bench(2)
    calls = [bench.ask() for _ in range(2)]
    for call in bench.calls:
        call.head(headers=[(b"content-length", b"20")])
        call.data(b"data: {}\n\n")
    bench.world.end_all(DOWN)
    for wire, _, _ in calls:
        assert b'data: {"error":' in wire.sent and DOWN.encode() in wire.sent
    bench.check_balance()


def test_a_stream_of_responses_ends_with_an_error_event_of_its_own() -> None:
    """`event: error`, with the number that follows the last."""
    bench = Bench(1)
    wire, exchange, _ = bench.ask()
    exchange.path = "/v1/responses"
    (call,) = bench.calls
    call.head()
    call.data(b'event: response.created\ndata: {"sequence_number":0}\n\n')
    call.data(b'event: response.in_progress\ndata: {"sequence_number":1}\n\n')
    call.fail("cut", True)
    event = wire.sent.partition(b"event: error\ndata: ")[2].partition(b"\n\n")[0]
    result = json.loads(event)
    assert result.pop("message").startswith("the engine broke off")
    assert result == {"type": "error", "code": "server_error", "param": None, "sequence_number": 2}
    bench.check_balance()


def test_a_request_that_is_still_coming_gets_an_answer() -> None:
    """Half a head, or half a body."""

    async def main() -> None:
        async with Live([SLOW], settings=PATIENT) as live:
            clients = [
                Client(live.port, post(body(True))[:-9]),
                Client(live.port, b"POST /v1/completions HTTP/1.1\r\n"),
            ]
            server = live.gateway.server
            await live.until(lambda: sum(not each.idle for each in server._connections) == 2)
            await stopped(live, clients)
            for client in clients:
                assert client.status == 503 and "going down" in client.message

    run(main())


def test_a_request_at_the_stop_of_the_gateway_is_refused() -> None:
    """A connection that was made, and a request that was sent, before the listener closed."""

    async def main() -> None:
        async with Live([SLOW], settings=PATIENT) as live:
            streams = [await asyncio.open_connection("127.0.0.1", live.port) for _ in range(20)]
            for _, writer in streams:
                writer.write(post(body(False)))
            await live.gateway.stop(PATIENCE_S)
            for reader, writer in streams:
                received = await read_all(reader)
                assert received.startswith(b"HTTP/1.1 503 ") and b"going down" in received
                writer.close()

    run(main())


def test_a_slow_reader_gets_what_was_written_before_the_end() -> None:
    """What is in its buffers is flushed, and the error event comes last."""
    patient = Limits(linger_s=PATIENCE_S, write_buffer_bytes=1 << 24)
    big = Settings(held_s=60, clients=patient, engines=PoolLimits(head_s=0, stall_s=0))

    async def main() -> None:
        async with Live([QUICK], settings=big) as live:
            reader, writer = await asyncio.open_connection("127.0.0.1", live.port, limit=1024)
            writer.write(post(body(True)))
            await live.until(
                lambda: any(proxied.usage.events > 100 for proxied in live.gateway.world.proxied_requests.values())
            )
            stopping = asyncio.ensure_future(live.gateway.stop(0.0))
            await live.until(lambda: not live.gateway.world.proxied_requests)
            received = await read_all(reader)
            assert received.count(b"data: ") > 100 and DOWN.encode() in received.rpartition(b"data: ")[2]
            writer.close()
            assert not await stopping

    run(main())
