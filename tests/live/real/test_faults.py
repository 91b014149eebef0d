"""Clients that leave, a gateway that stops, an engine that is killed: nothing is lost, nothing ends twice."""

from __future__ import annotations

import asyncio

import pytest

from poise.live.traffic import words
from tests.live.gateway.live import Answer
from tests.live.real.clients import Clients, ended, until
from tests.live.real.engines import Pair
from tests.live.real.served import Served

pytestmark = pytest.mark.slow


def at_engines(pair: Pair) -> int:
    """Requests that living engines have, running or waiting: a preempted one waits."""
    readings = [engine.reading().columns for engine in pair.engines if engine.well()]
    return sum(each["running"] + each["waiting"] for each in readings)


def counted(answers: list[Answer]) -> str:
    """How far answers are, for a message."""
    return ", ".join(answer.error if answer.over.is_set() else f"{len(answer.chunks)} pieces" for answer in answers)


def over(answers: list[Answer]) -> int:
    """How many have ended."""
    return sum(answer.over.is_set() for answer in answers)


def load(clients: Clients, first: int, count: int, tokens: int) -> list[Answer]:
    """So many requests at once, half of them streams."""
    return [clients.complete(words(first + number, 60), tokens, stream=number % 2 == 0) for number in range(count)]


def ends(answers: list[Answer]) -> list[str]:
    """How requests ended: `answer`, or the clear error."""
    for answer in answers:
        assert answer.whole or answer.error, (answer.status, answer.body[-200:], answer.why)
        assert not (answer.whole and answer.error)
    return ["answer" if answer.whole else answer.error for answer in answers]


def test_a_client_that_leaves_frees_the_engine(pair: Pair, served: Served) -> None:
    async def main() -> None:
        clients = Clients(served.url)
        answers = load(clients, 100, 6, 3500)
        await until(
            lambda: at_engines(pair) == 6,
            lambda: f"6 requests at the engines, not {at_engines(pair)}; {counted(answers)}",
        )
        for answer in answers:
            assert not answer.over.is_set() and answer.call is not None
            answer.call.cancel()
        await until(lambda: not at_engines(pair), lambda: f"the engines are quiet, not {at_engines(pair)} at them")
        await until(lambda: not served.state()["requests"]["open"], "no request is open")
        assert (await ended([clients.complete("after", 4)]))[0].whole
        await clients.close()

    asyncio.run(main())


def test_it_drains(pair: Pair, served: Served) -> None:
    """SIGTERM under load: what is under way is answered whole, and the gateway ends well."""

    async def main() -> None:
        clients = Clients(served.url)
        answers = load(clients, 200, 12, 500)
        await until(
            lambda: over(answers) + served.state()["requests"]["open"] == 12, lambda: f"12 came; {counted(answers)}"
        )
        served.terminate()
        assert ends(await ended(answers)) == ["answer"] * 12
        assert await asyncio.to_thread(served.process.wait, 30) == 0
        late = (await ended([clients.complete("late", 4)]))[0]
        assert late.error
        await clients.close()

    asyncio.run(main())
    assert not at_engines(pair)


def test_an_engine_is_killed(pair: Pair, served: Served) -> None:
    """Under load, by SIGKILL: each request ends once, and the other engine serves those that come later."""

    async def main() -> None:
        clients = Clients(served.url)
        answers = load(clients, 300, 16, 600)

        def came() -> bool:
            return over(answers) + int(served.state()["requests"]["open"]) == len(answers)

        await until(came, lambda: f"16 came; {counted(answers)}")
        await until(lambda: any(answer.chunks for answer in answers), lambda: f"one began; {counted(answers)}")
        at_each = [each["in_flight"] for each in (await asyncio.to_thread(served.state))["engines"].values()]
        busiest = at_each.index(max(at_each))
        await asyncio.to_thread(pair.engines[busiest].kill)
        lost = len(answers) - ends(await ended(answers)).count("answer")
        assert lost <= at_each[busiest], "whoever was at the other engine has an answer"
        await until(lambda: served.serving() == 1, "one engine serves")
        later = ends(await ended(load(clients, 400, 8, 20)))
        assert later == ["answer"] * 8
        await until(lambda: not served.state()["requests"]["open"], "no request is open")
        await clients.close()

    asyncio.run(main())
    assert not at_engines(pair)
