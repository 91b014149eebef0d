"""The times of a connection to an engine, by a given clock."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from poise.live.http import Address, Call, Pool, PoolLimits
from poise.live.http.upstream import Upstream
from tests.live.http.kit import FakeTransport, Listener

LIMITS = PoolLimits(idle=1, idle_s=4, head_s=10, stall_s=5)
OK = b"HTTP/1.1 200 OK\r\n"


class Engine:
    """A connection to an engine that is not there."""

    def __init__(self, limits: PoolLimits = LIMITS, pool: Pool | None = None) -> None:
        self.pool = pool or Pool(Address("127.0.0.1", 9), limits)
        self.transport = FakeTransport()
        self.upstream = Upstream(self.pool)
        self.upstream.connection_made(cast(Any, self.transport))

    def send(self, method: bytes = b"POST") -> tuple[Listener, Call]:
        listener = Listener()
        call = Call(listener)
        self.upstream.begin(call, method, (b"head", b"body"))
        return listener, call

    def hear(self, data: bytes) -> None:
        self.upstream.data_received(data)

    def waits(self, *at_s: float) -> None:
        for at in at_s:
            self.upstream.sweep(int(at * 10**12))


async def _idle() -> None:
    engine = Engine()
    listener, _ = engine.send()
    engine.hear(OK + b"content-length: 0\r\n\r\n")
    assert listener.over.done() and engine.pool.idle == 1
    engine.waits(1, 5)
    assert not engine.transport.is_closing()
    engine.waits(5.1)
    assert engine.transport.closed


def test_a_connection_without_work_is_closed() -> None:
    asyncio.run(_idle())


async def _head() -> None:
    engine = Engine()
    listener, _ = engine.send()
    engine.waits(1, 11)
    assert not listener.over.done()
    engine.waits(11.1)
    assert listener.why is not None and listener.why[::2] == ("timeout", False) and engine.transport.aborted
    patient = Engine(PoolLimits(head_s=0, stall_s=0))
    listener, _ = patient.send()
    patient.waits(1, 10**6)
    patient.hear(OK + b"\r\n")
    patient.waits(10**6, 10**7)
    assert not listener.over.done()


def test_an_answer_is_waited_for_so_long() -> None:
    asyncio.run(_head())


async def _stall() -> None:
    engine = Engine()
    listener, call = engine.send()
    engine.waits(1)
    engine.hear(OK + b"\r\n")
    engine.waits(9, 14)
    engine.hear(b"x")
    engine.waits(15, 20)
    call.pause()
    engine.waits(26, 1000)
    call.resume()
    engine.waits(1001, 1006)
    assert not listener.over.done(), "it was the client who was slow"
    engine.waits(1007)
    assert listener.why is not None and listener.why[::2] == ("timeout", True)


def test_a_stall_is_waited_for_so_long_and_a_pause_is_none() -> None:
    asyncio.run(_stall())


async def _kept() -> None:
    first = Engine()
    second = Engine(pool=first.pool)
    for engine in (first, second):
        engine.send()
    for engine in (first, second):
        engine.hear(OK + b"content-length: 0\r\n\r\n")
    assert first.pool.idle == 1
    assert second.transport.aborted and not first.transport.is_closing()


def test_only_so_many_are_kept() -> None:
    asyncio.run(_kept())


async def _paused() -> None:
    engine = Engine()
    _, call = engine.send()
    engine.hear(OK + b"content-length: 2\r\n\r\na")
    call.pause()
    assert not engine.transport.reading
    engine.hear(b"b")
    assert call.over and engine.transport.reading, "a kept connection is read, or its close would not be seen"
    call.pause()
    assert engine.transport.reading, "a call that is over has no connection"


def test_a_pause_ends_with_its_call() -> None:
    asyncio.run(_paused())


async def _cycles() -> None:
    engine = Engine()
    listener, call = engine.send()
    engine.hear(OK + b"content-length: 0\r\n\r\n")
    assert call.handler is not listener and call.upstream is None


def test_a_call_that_is_over_holds_no_sender() -> None:
    asyncio.run(_cycles())
