"""Engines that break in every way under load: each request ends exactly once, with an answer or a clear error."""

from __future__ import annotations

import random
from typing import Any

import pytest

from poise.core.action import Hedge
from poise.core.records.trace import replay
from poise.live.gateway.settings import Settings
from poise.live.http.limits import PoolLimits
from poise.policies.find import build
from tests.core.scripted import Hasty
from tests.live.gateway.live import Answer, Live
from tests.live.warp import run
from tests.patience import turns

# Python 3.11's own loop forgets a connection that it accepts while its listener closes (CPython issue 109564).
pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")

FAST = Settings(held_s=3.0, engines=PoolLimits(connect_s=0.5, head_s=0.3, stall_s=0.3, idle_s=1.0))


def a_fault(draw: random.Random) -> dict[str, Any]:
    """Any fault, for a while or for some requests."""
    kind = draw.choice(["stall", "slow", "crash", "cut", "garbage", "refuse", "reject", "half_open"])
    fault: dict[str, Any] = {"kind": kind}
    if kind in ("cut", "garbage"):
        fault |= {"count": draw.randint(1, 4), "after_tokens": draw.choice([0, 0, 1, 5])}
    elif kind == "reject":
        fault |= {"count": draw.randint(1, 4), "status": draw.choice([429, 500, 503])}
    else:
        fault |= {"for_s": draw.choice([0.02, 0.1, 0.4])}
    if kind == "garbage":
        fault["form"] = draw.choice(["http", "chunk"])
    if kind == "slow":
        fault["factor"] = draw.choice([3.0, 30.0])
    return fault


async def storm(live: Live, seed: int, faults: int, requests: int) -> list[Answer]:
    """So many faults among so many requests, of which some clients leave early."""
    draw = random.Random(seed)
    answers: list[Answer] = []
    left: set[int] = set()
    for number in range(requests):
        answers.append(
            live.ask(f"Tale {number % 7} " * draw.randint(1, 80), draw.randint(1, 40), stream=draw.random() < 0.7)
        )
        for _ in range(faults * (number + 1) // requests - faults * number // requests):
            engine = draw.choice(live.engines)
            await engine.settled()
            engine.fault(**a_fault(draw))
        if draw.random() < 0.08:
            gone = draw.randrange(len(answers))
            if not answers[gone].over.is_set():
                call = answers[gone].call
                assert call is not None
                call.cancel()
                left.add(gone)
        await turns(draw.choice([0, 0, 1, 10]))
    for engine in live.engines:
        await engine.settled()
        engine.clear()
        await engine.settled()
    return [await answer.wait() for number, answer in enumerate(answers) if number not in left]


async def survived(seed: int, faults: int, requests: int, engines: int = 3, hedge: Any = None) -> tuple[int, int]:
    """A storm, and what must hold after it; how many were answered and how many were told why not."""
    async with Live(engines, build("router", "prefix_cache"), settings=FAST, hedge=hedge) as live:
        answers = await storm(live, seed, faults, requests)
        for answer in answers:
            assert answer.whole or answer.error, (answer.status, answer.body[-200:], answer.why)
            assert not (answer.whole and answer.error), "answered and refused"
        await live.check_balance()
        after = [live.ask(f"After {number}", 4) for number in range(3 * engines)]
        await live.until(lambda: live.gateway.world.fleet.serving)
        assert all([(await answer.wait()).whole for answer in after]), [answer.error for answer in after]
        await live.check_balance()
        fresh = Live(engines, build("router", "prefix_cache"), settings=FAST, hedge=hedge)
        if hedge is not None:
            fleet = list(live.gateway.world.fleet)
            assert any(isinstance(action, Hedge) for action in live.trace.actions)
            assert all(engine.hedges >= engine.hedges_won for engine in fleet), "who wins is a matter of real time"
        assert replay(live.trace.events, fresh.control) == list(live.trace.actions)
    good = sum(answer.whole for answer in answers)
    return good, len(answers) - good


def test_a_storm_of_faults() -> None:
    good, bad = run(survived(seed=1, faults=25, requests=120))
    assert good > 40, "most are answered by another engine"
    assert bad < good


def test_a_storm_of_faults_with_copies() -> None:
    """After 20 ms without a first byte two thirds of the requests are at two engines."""
    good, bad = run(survived(seed=1, faults=25, requests=120, hedge=Hasty(20 * 10**9)))
    assert good > 40 and bad < good


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_thousand_faults(seed: int) -> None:
    """8 × 150 seeded faults, half of them with copies."""
    good, bad = run(survived(seed=100 + seed, faults=150, requests=600, hedge=Hasty(20 * 10**9) if seed % 2 else None))
    assert good + bad > 500 and good > 100, "how many are answered depends on how fast the machine is"


async def all_down(kind: str) -> None:
    async with Live(2, settings=FAST) as live:
        for engine in live.engines:
            engine.fault(kind)
        answers = [await answer.wait() for answer in [live.ask() for _ in range(8)]]
        assert all(answer.whole or (answer.status in (503, 504) and answer.error) for answer in answers)
        if kind != "refuse":  # connections that were open already still work then
            assert not any(answer.whole for answer in answers)
        await live.check_balance()
        for engine in live.engines:
            await engine.settled()
            engine.clear()
            await engine.settled()
        assert (await live.ask().wait()).whole, "they are found again"


@pytest.mark.parametrize("kind", ["crash", "refuse", "half_open", "reject"])
def test_all_engines_down_is_a_clear_error_and_passes(kind: str) -> None:
    run(all_down(kind))


def test_a_request_waits_for_an_engine_that_comes_back() -> None:
    async def main() -> None:
        async with Live(1, settings=Settings(held_s=20, engines=FAST.engines)) as live:
            live.engines[0].fault("crash", for_s=0.5)
            await live.until(lambda: not live.gateway.world.fleet.serving)
            answer = await live.ask().wait()
            assert answer.whole
            await live.check_balance()

    run(main())


def test_the_gateway_stops_under_load() -> None:
    """Answers under way end; who waits or comes later is told."""

    async def main() -> None:
        async with Live(2, speed=2.0, settings=FAST) as live:
            early = [live.ask("story " * 20, 400) for _ in range(20)]
            await live.until(lambda: len(live.gateway.world.proxied_requests) == 20)
            assert await live.gateway.stop(20.0), "all ended in time"
            ended = [await answer.wait() for answer in early]
            assert all(answer.whole for answer in ended)
            late = await live.ask().wait()
            assert not late.whole and late.error
            assert not live.gateway.world.proxied_requests and not live.control.flights

    run(main())


def test_the_gateway_stops_without_patience() -> None:
    async def main() -> None:
        async with Live(1, speed=1.0, settings=FAST) as live:
            answers = [live.ask("story", 2000) for _ in range(5)]
            await live.until(lambda: any(answer.began.is_set() for answer in answers))
            assert not await live.gateway.stop(0.05)
            for answer in answers:
                await answer.wait()
                assert not answer.whole and answer.error
            assert not live.gateway.world.proxied_requests and not live.control.flights

    run(main())
