"""Clients that leave, a gateway that stops, an engine that is killed: nothing is lost, nothing ends twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from poise.live.traffic import words
from tests.live.gateway.live import Answer
from tests.live.real.clients import Clients, ended, until
from tests.live.real.process import Process
from tests.live.real.served import Served

Engines = Sequence[Process]


def at_engines(engines: Engines) -> int:
    """Requests that living engines have, running or waiting: a preempted one waits."""
    readings = [engine.reading().columns for engine in engines if engine.well()]
    return sum(each["running"] + each["waiting"] for each in readings)


def counted(answers: list[Answer]) -> str:
    """How far answers are, for a message."""
    return ", ".join(answer.error if answer.over.is_set() else f"{len(answer.chunks)} pieces" for answer in answers)


def over(answers: list[Answer]) -> int:
    """How many have ended."""
    return sum(answer.over.is_set() for answer in answers)


def load(clients: Clients, first: int, count: int, tokens: int, whole: int = 2) -> list[Answer]:
    """So many requests at once, streams but for one in `whole`."""
    return [clients.complete(words(first + each, 60), tokens, stream=each % whole < whole - 1) for each in range(count)]


def ends(answers: list[Answer]) -> list[str]:
    """How requests ended: `answer`, or the clear error."""
    for answer in answers:
        assert answer.whole or answer.error, (answer.status, answer.body[-200:], answer.why)
        assert not (answer.whole and answer.error)
    return ["answer" if answer.whole else answer.error for answer in answers]


def client_leaves(engines: Engines, served: Served, whole: int = 2) -> None:
    """Clients that leave free the engine; all but one in `whole` have begun a stream."""

    async def main() -> None:
        clients = Clients(served.url)
        answers = load(clients, 100, 6, 3500, whole)
        await until(
            lambda: at_engines(engines) == 6,
            lambda: f"6 requests at the engines, not {at_engines(engines)}; {counted(answers)}",
        )
        for answer in answers:
            assert not answer.over.is_set() and answer.call is not None
            answer.call.cancel()
        await until(lambda: not at_engines(engines), lambda: f"{at_engines(engines)} requests are at the engines")
        await until(lambda: not served.state()["requests"]["open"], "no request is open")
        assert (await ended([clients.complete("after", 4)]))[0].whole
        await clients.close()

    asyncio.run(main())


def gateway_drains(engines: Engines, served: Served) -> None:
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
    assert not at_engines(engines)


def engine_is_killed(engines: Engines, served: Served) -> None:
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
        await asyncio.to_thread(engines[busiest].kill)
        lost = len(answers) - ends(await ended(answers)).count("answer")
        assert lost <= at_each[busiest], "whoever was at the other engine has an answer"
        await until(lambda: served.serving() == 1, "one engine serves")
        later = ends(await ended(load(clients, 400, 8, 20)))
        assert later == ["answer"] * 8
        await until(lambda: not served.state()["requests"]["open"], "no request is open")
        await clients.close()

    asyncio.run(main())
    assert not at_engines(engines)
