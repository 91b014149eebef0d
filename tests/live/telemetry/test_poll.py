"""Polling over real sockets: answers with their instants, and every way to get none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from poise.core.chance import Chance
from poise.live import clock
from poise.live.http import Address, Exchange, Failure, Pool, Server
from poise.live.telemetry.health import Outcome
from poise.live.telemetry.metrics import Reading
from poise.live.telemetry.poll import ABSENT, FAILURES, Every, Poll, PollResult, outcome, reading
from tests.live.telemetry.test_metrics import VLLM

QUICK = Every(period_s=0.001, timeout_s=10.0, absent_s=0.001)


def _polled(
    handler: Callable[[Exchange], None], count: int, every: Every = QUICK
) -> list[tuple[int, PollResult | Failure]]:
    """What a poll is told of the first `count` questions to a server with this handler."""

    async def main() -> list[tuple[int, PollResult | Failure]]:
        server = Server(handler)
        pool = Pool(Address("127.0.0.1", await server.listen("127.0.0.1", 0)))
        seen: list[tuple[int, PollResult | Failure]] = []
        enough = asyncio.Event()

        def hear(sent_at: int, answer: PollResult | Failure) -> None:
            seen.append((sent_at, answer))
            if len(seen) == count:
                poll.stop()
                enough.set()

        poll = Poll(pool, b"/metrics", hear, Chance(1), every)
        poll.start()
        async with asyncio.timeout(20):
            await enough.wait()
        await pool.close()
        await server.drain(5)
        return seen

    return asyncio.run(main())


def _answering(status: int, body: bytes) -> Callable[[Exchange], None]:
    def handler(exchange: Exchange) -> None:
        assert (exchange.method, exchange.target) == ("GET", b"/metrics")
        exchange.answer(status, body, b"text/plain")

    return handler


def test_readings_come_with_the_instant_of_the_question() -> None:
    before = clock.now()
    answers = _polled(_answering(200, VLLM), 3)
    stamps = [sent_at for sent_at, _ in answers]
    assert before < stamps[0] < stamps[1] < stamps[2] < clock.now()
    for _, answer in answers:
        columns = reading(answer)
        assert isinstance(columns, Reading) and columns.columns["waiting"] == 2
        assert outcome(answer) is Outcome.OK


def test_an_engine_without_metrics_says_so() -> None:
    [(_, answer)] = _polled(_answering(404, b"{}"), 1)
    assert reading(answer) == "status 404" and outcome(answer) is Outcome.ERROR


def test_too_long_an_answer_is_garbage() -> None:
    [(_, answer), (_, again)] = _polled(_answering(200, VLLM), 2, QUICK._replace(most=100))
    assert isinstance(answer, Failure) and answer.reason == "the answer has more than 100 bytes"
    assert outcome(again) is Outcome.GARBAGE


def test_silence_is_a_timeout_and_is_polled_again() -> None:
    kept = []
    answers = _polled(kept.append, 2, Every(period_s=0.001, timeout_s=0.02))
    assert [reading(answer) for _, answer in answers] == ["no answer in 0.02 s"] * 2
    assert len(kept) == 2 and outcome(answers[0][1]) is Outcome.TIMEOUT


def test_a_closed_port_is_refused() -> None:
    async def main() -> PollResult | Failure:
        server = Server(_answering(200, b""))
        port = await server.listen("127.0.0.1", 0)
        await server.drain(1)
        pool = Pool(Address("127.0.0.1", port))
        reported: asyncio.Future[PollResult | Failure] = asyncio.get_running_loop().create_future()
        poll = Poll(
            pool, b"/health", lambda sent_at, answer: reported.done() or reported.set_result(answer), Chance(1), QUICK
        )
        poll.start()
        async with asyncio.timeout(20):
            answer = await reported
        poll.stop()
        await pool.close()
        return answer

    answer = asyncio.run(main())
    assert outcome(answer) is Outcome.REFUSED
    assert str(reading(answer)).startswith("no connection to 127.0.0.1:")


def test_nothing_is_reported_after_the_stop() -> None:
    async def main() -> None:
        requested = asyncio.Event()
        server = Server(lambda exchange: requested.set())
        pool = Pool(Address("127.0.0.1", await server.listen("127.0.0.1", 0)))
        seen: list[int] = []
        poll = Poll(pool, b"/metrics", lambda sent_at, answer: seen.append(sent_at), Chance(1), QUICK)
        poll.start()
        async with asyncio.timeout(20):
            await requested.wait()
        poll.stop()
        await pool.close()
        await server.drain(5)
        assert seen == []

    asyncio.run(main())


@pytest.mark.parametrize("status", [200, 500, *ABSENT])
def test_an_engine_without_the_page_is_polled_seldom(status: int) -> None:
    async def main() -> float:
        server = Server(_answering(status, b""))
        pool = Pool(Address("127.0.0.1", await server.listen("127.0.0.1", 0)))
        reported = asyncio.Event()
        poll = Poll(pool, b"/metrics", lambda sent_at, answer: reported.set(), Chance(1), Every(0.001, 20.0, 4000.0))
        poll.start()
        async with asyncio.timeout(20):
            await reported.wait()
        assert poll._timer is not None
        waits = poll._timer.when() - asyncio.get_running_loop().time()
        poll.stop()
        await pool.close()
        await server.drain(5)
        return waits

    assert (asyncio.run(main()) > 3000) == (status in ABSENT)


def test_every_failure_of_the_wire_counts_as_something() -> None:
    for kind in ("refused", "dns", "reset", "cut", "timeout", "garbage", "stale"):
        assert FAILURES[kind] is not Outcome.OK
