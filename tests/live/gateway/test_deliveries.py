"""How often a request reaches engines that close connections, refuse them or go away: never more than `tries` says."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from typing import Any, Self

import pytest

from poise.core.action import Dispatch
from poise.core.control.control import Control
from poise.core.event import Refused
from poise.core.records.trace import replay
from poise.core.spec import ReplicaSpec
from poise.live.discovery.address import engine as place
from poise.live.gateway.fleet import EngineAt
from poise.live.gateway.settings import Settings
from poise.live.http.limits import PoolLimits
from poise.live.http.loop import run
from poise.policies import Policies
from poise.policies.admit.ceiling import Ceiling
from poise.policies.route.least_requests import LeastRequests
from tests.live.gateway.attack import Evil
from tests.live.gateway.fakes import Bench
from tests.live.gateway.live import Live

POISON = [(b"x-poison", b"1")]
KEPT = Settings(held_s=10, engines=PoolLimits(connect_s=1.0, head_s=5.0, stall_s=5.0, idle_s=60))
GOOD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
EMPTY = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


class Keeper(Evil):
    """An engine that keeps connections, and closes the one on which a request with `x-poison` comes.

    reset: by a reset.  wanted: good requests that it waits for before it answers any, so that each has a connection.
    closes: how many good requests on kept connections it answers by closing them, as if they had been idle too long.
    """

    def __init__(self, reset: bool = False, wanted: int = 0, closes: int = 0) -> None:
        super().__init__(self._never)
        self.reset = reset
        self.wanted = wanted
        self.closes = closes
        self.poisoned = 0
        self.port = 0
        self._all = asyncio.Event()

    @staticmethod
    async def _never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, reuse_address=True)
        self.port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{self.port}"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for served in range(1 << 20):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /v1/models"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(self.models) + self.models)
                continue
            if head.startswith(b"GET"):
                writer.write(EMPTY)
                continue
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            self.heads.append(head)
            if b"x-poison" in head:
                self.poisoned += 1
                if self.reset:
                    linger = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                return
            if served and self.closes:
                self.closes -= 1
                return
            if len(self.heads) >= self.wanted:
                self._all.set()
            await self._all.wait()
            writer.write(GOOD)


class Kept(Live):
    """A gateway before such engines."""

    def __init__(self, keepers: Sequence[Keeper], **given: Any) -> None:
        super().__init__([], settings=KEPT, **given)
        self.keepers = keepers
        slots = [ReplicaSpec(up=False)] * len(keepers)
        self.control = Control(Policies(router=LeastRequests()), slots, tries=self.control.tries, resume=False)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        for number, keeper in enumerate(self.keepers):
            self.gateway.prober.add(EngineAt(place(await keeper.start(), "test", f"k{number}")))
        await self.until(lambda: len(self.gateway.world.fleet.serving) == len(self.keepers))
        return self

    async def __aexit__(self, *given: Any) -> None:
        await super().__aexit__(*given)
        for keeper in self.keepers:
            await keeper.stop()


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("tries", [1, 3])
@pytest.mark.parametrize("engines", [1, 2])
def test_a_request_that_kills_connections_is_sent_no_more_often_than_allowed(
    engines: int, tries: int, reset: bool
) -> None:
    async def main() -> None:
        keepers = [Keeper(reset, wanted=12) for _ in range(engines)]
        async with Kept(keepers, tries=tries) as live:
            warm = [live.ask(stream=False) for _ in range(12 * engines)]
            assert all([(await each.wait()).body == b"hi" for each in warm])
            await live.until(lambda: all(engine.pool.idle >= 12 for engine in live.gateway.world.fleet))
            before = sum(type(each) is Dispatch for each in live.trace.actions)
            answer = await live.ask(stream=False, headers=POISON).wait()
            assert answer.status == 503 and answer.error and b"retry-after" in answer.headers
            reached = sum(keeper.poisoned for keeper in keepers)
            assert reached == min(tries, engines + 1), "once more than there are engines: the first may have been idle"
            sent = sum(type(each) is Dispatch for each in live.trace.actions) - before
            assert sent == reached, "each delivery is a decision that was recorded"
            assert (await live.ask(stream=False).wait()).body == b"hi"
            await live.check_balance()

    run(main())


def test_a_kept_connection_that_is_closed_costs_no_client_its_answer() -> None:
    async def main() -> None:
        async with Kept([Keeper(closes=5)]) as live:
            for _ in range(20):
                assert (await live.ask(stream=False).wait()).body == b"hi"
            assert len(live.keepers[0].heads) == 25 and not live.keepers[0].closes
            (engine,) = live.gateway.world.fleet
            assert not engine.failures, "engines close what is idle, and that is no fault"
            await live.check_balance()

    run(main())


def test_engines_that_refuse_connections_for_a_moment_are_waited_for() -> None:
    async def main() -> None:
        keepers = [Keeper(), Keeper()]
        async with Kept(keepers) as live:
            live.gateway.prober.close()  # no look at them from now on: requests alone find out
            for keeper in keepers:
                await keeper.stop()
            await live.until(lambda: not any(engine.pool.connections for engine in live.gateway.world.fleet))
            answers = [live.ask(stream=False) for _ in range(8)]

            def refused() -> list[Refused]:
                return [each for each in live.trace.events if isinstance(each, Refused)]

            await live.until(lambda: len(refused()) > 8)
            assert not any(answer.status for answer in answers)
            for keeper in keepers:
                await keeper.start()
            assert all([(await answer.wait()).body == b"hi" for answer in answers])
            assert not any(each.sent for each in refused())
            again = Control(Policies(router=LeastRequests()), [ReplicaSpec(up=False)] * 2, tries=3, resume=False)
            assert replay(live.trace.events, again) == list(live.trace.actions)
            await live.check_balance()

    run(main())


def test_who_waits_for_engines_that_cannot_be_reached_asks_ever_more_rarely() -> None:
    bench = Bench(2, settings=Settings(held_s=20))
    wire, _, _ = bench.ask()
    count = 0
    while not wire.ended:
        while bench.calls:
            count += 1
            bench.calls[0].fail("refused")
        bench.pass_s(0.05)
    assert wire.status == 503 and b"retry-after" in wire.sent and b"20 s" in wire.body
    assert 40 <= count <= 60, "both engines after 0.05, 0.1, 0.2, … and then each second"
    bench.check_balance()


def test_an_engine_that_is_back_is_used_at_once() -> None:
    bench = Bench(1, slots=2)
    wire, _, _ = bench.ask()
    bench.calls[0].fail("refused")
    assert not bench.calls and not wire.ended
    (engine,) = bench.engines
    bench.world.fleet.lose(engine)
    bench.world.fleet.join(engine, engine.spec)
    bench.calls[0].answer()
    assert wire.status == 200
    bench.check_balance()


def test_one_that_an_engine_had_does_not_wait_for_the_others_forever() -> None:
    """It breaks one engine and cannot reach the other: its tries are spent soon, and the next client is served."""
    bench = Bench(2, tries=3)
    wire, _, _ = bench.ask()
    second, _, _ = bench.ask()
    broken = bench.calls[0].pool
    for _ in range(100):
        for call in bench.calls:
            if call.pool is not broken:
                call.fail("refused")
            elif not wire.ended:
                call.fail("cut")
        bench.pass_s(0.05)
        if wire.ended:
            break
    assert wire.status == 503 and len(broken.calls) >= 2
    for call in bench.calls:
        call.answer()
    bench.pass_s(0.05)
    for call in bench.calls:
        call.answer()
    assert second.ended
    bench.check_balance()


def test_an_answer_that_is_no_stream_and_breaks_off_is_requested_elsewhere() -> None:
    bench = Bench(2)
    wire, _, _ = bench.ask(stream=False)
    (first,) = bench.calls
    first.head(200, [(b"content-length", b"10")])
    first.data(b"{half")
    first.fail("cut", True)
    assert not wire.sent, "its client has not seen a byte"
    (second,) = bench.calls
    assert second.pool is not first.pool
    second.head(200, [(b"content-length", b"4")])
    second.data(b"{}")
    second.data(b"\n\n")
    assert not wire.sent
    second.end()
    assert wire.done and wire.status == 200 and wire.body == b"{}\n\n"
    bench.check_balance()


@pytest.mark.parametrize("end", ["cut", "give up", "leave"])
def test_an_answer_that_is_no_stream_and_never_ends_is_a_clear_error(end: str) -> None:
    bench = Bench(1)
    wire, exchange, proxied = bench.ask(stream=False)
    bench.calls[0].head(200, [(b"content-length", b"10")])
    bench.calls[0].data(b"{half")
    if end == "cut":
        bench.calls[0].fail("cut", True)
    elif end == "leave":
        exchange.leave()
    else:
        bench.world.end_all("the gateway is going down")
    assert (wire.sent == b"") if end == "leave" else (wire.status == 503 and wire.body.startswith(b'{"error"'))
    assert proxied.first_at < 0
    bench.check_balance()


def test_a_long_answer_that_is_no_stream_passes_as_it_comes() -> None:
    bench = Bench(1)
    wire, _, _ = bench.ask(stream=False)
    bench.calls[0].head(200, [(b"content-length", b"200000")])
    bench.calls[0].data(b"a" * 60_000)
    assert not wire.sent
    bench.calls[0].data(b"b" * 60_000)
    assert wire.body == b"a" * 60_000 + b"b" * 60_000
    bench.calls[0].data(b"c" * 80_000)
    bench.calls[0].end()
    assert wire.done and len(wire.body) == 200_000
    bench.check_balance()


def test_an_engine_that_is_lost_is_sent_nothing_of_what_waits() -> None:
    """As its requests are taken away there is room there, of which the held must not make use."""
    bench = Bench(2, admission=[Ceiling(1)], slots=3, tries=3)
    wires = [bench.ask()[0] for _ in range(4)]
    lost, left = bench.calls
    (engine,) = [each for each in bench.engines if each.pool is lost.pool]  # type: ignore[comparison-overlap]
    bench.world.lose(engine)
    assert bench.calls == [left] and lost.cancelled
    for _ in wires:
        bench.calls[0].answer()
    assert all(wire.done and wire.status == 200 for wire in wires)
    bench.check_balance()
