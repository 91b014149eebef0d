"""`poise demo-live`: it stays up, says how to kill an engine, and what became of the requests when one dies."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from poise.core.event import Failed, Refused
from poise.live.gateway.fleet import DOWN, SERVING
from poise.scenario.serve.command import in_loop
from poise.scenario.serve.demo import ENGINES, MINUTE, LiveDemo, demo_live, invitation, traffic
from poise.scenario.serve.demo_engines import DemoEngine
from poise.scenario.serve.demo_news import QUEUED, News
from tests.patience import until


def engine(pid: int = 77) -> DemoEngine:
    process: Any = SimpleNamespace(pid=pid)
    return DemoEngine("http://127.0.0.1:5001", process)


def gateway(there: Any) -> Any:
    """A gateway with one engine, as far as the news look at it."""
    control = SimpleNamespace(state=SimpleNamespace(requests=[0]), held=[])
    return SimpleNamespace(world=SimpleNamespace(fleet=[there], control=control, keep=None))


def test_a_death_is_reported_with_what_became_of_the_requests() -> None:
    async def main() -> None:
        lines: list[str] = []
        there = SimpleNamespace(name="127.0.0.1:5001", slot=0, status=SERVING)
        house = gateway(there)
        kept: list[Any] = []
        house.world.keep = kept.append
        news = News(lines.append)
        news.listen(house)
        events = [
            Refused(1, 10, 0, "gone", True),
            Refused(2, 10, 0, "gone", True),  # tried twice, and still one request
            Refused(3, 11, 0, "bad request", False),  # its client's own fault
            Refused(4, 12, 1, "another engine", True),
            Failed(5, 13, 0, "gone", 4),
        ]
        house.world.control.state.requests[0] = 1
        for event in events:
            house.world.keep(event)
        assert kept == events
        dead = engine()
        news.died(dead)
        there.status = DOWN
        house.world.control.state.requests[0] = 0
        await until(lambda: len(lines) == 2)
        dead.process = engine(78).process
        news.started(dead)
        there.status = SERVING
        await until(lambda: len(lines) == 4)
        news.stop()
        assert lines == [
            "engine 127.0.0.1:5001 died (PID 77)",
            "engine 127.0.0.1:5001: 1 request moved to other engines before a first byte, 1 answer cut in the middle",
            "engine 127.0.0.1:5001 was started again: PID 78, its cache is empty",
            "engine 127.0.0.1:5001 is back and takes requests; kill it again with: kill -9 78",
        ]

    asyncio.run(main())


def test_a_death_that_the_gateway_never_notices_is_reported_before_the_return() -> None:
    async def main() -> None:
        lines: list[str] = []
        news = News(lines.append)
        news.listen(gateway(SimpleNamespace(name="127.0.0.1:5001", slot=0, status=SERVING)))
        news.died(engine())
        news.started(engine())
        await until(lambda: len(lines) == 4)
        news.stop()
        parts = ["died", "0 requests moved", "started again", "is back"]
        assert all(part in line for part, line in zip(parts, lines, strict=True))

    asyncio.run(main())


def test_a_queue_is_reported_when_it_forms_and_when_it_is_gone() -> None:
    async def main() -> None:
        lines: list[str] = []
        house = gateway(SimpleNamespace(name="a", slot=0, status=SERVING))
        held = house.world.control.held
        news = News(lines.append)
        news.listen(house)
        held.extend(range(QUEUED))
        await until(lambda: len(lines) == 1)
        held.clear()
        await until(lambda: len(lines) == 2)
        news.stop()
        assert lines[0].startswith("overload: requests wait at the gateway")
        assert lines[1].endswith(f"at most {QUEUED} requests waited")

    asyncio.run(main())


def test_the_invitation_has_the_page_and_the_very_command() -> None:
    text = "\n".join(invitation(8000, "http://127.0.0.1:8001/", [engine()], None))
    assert "http://127.0.0.1:8001/" in text
    assert "kill -9 77\n" in text
    assert text.endswith("stop with Ctrl-C.")
    assert "ends after 30 s" in invitation(8000, "", [engine()], 30.0)[-1]


def test_each_minute_has_an_overload() -> None:
    work = traffic(120.0)
    starts = work.arrival[[at for at in range(len(work)) if work.after_offsets[at] == work.after_offsets[at + 1]]]
    seconds = starts / 1e12 % 60
    surge = ((seconds >= 27) & (seconds < 37)).sum() / 10
    assert surge > 3 * (seconds < 25).sum() / 25
    assert MINUTE[-1][0] == 60


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [None, 3600.0])
def test_an_engine_that_is_killed_is_reported_and_comes_back(tmp_path: Path, seconds: float | None) -> None:
    lines: list[str] = []

    def among(part: str) -> list[str]:
        return [line for line in lines if part in line]

    async def try_it() -> None:
        await until(lambda: among("Now running"))
        found = re.search(r"kill -9 (\d+)", among("Try this")[0])
        assert found
        os.kill(int(found[1]), signal.SIGKILL)
        await until(lambda: among("is back"))
        signal.raise_signal(signal.SIGINT)

    async def main() -> LiveDemo:
        trying = asyncio.get_running_loop().create_task(try_it())
        demo = await demo_live(
            tmp_path, "prefix_cache", seconds=seconds, port=0, admin_port=0, opened=lambda page: None,
            say=lines.append, again_s=0.1,
        )  # fmt: skip
        await trying
        return demo

    demo = in_loop(main())
    assert demo.interrupted == (seconds is not None)
    assert (tmp_path / "day.jsonl").is_file()
    order = ["died", "moved to other engines", "is back"]
    places = [next(at for at, line in enumerate(lines) if part in line) for part in order]
    assert places[0] == min(places)
    assert places[2] == max(places)
    assert len(among(" emulated engines ")) == 1 and f"{ENGINES} emulated" in among(" emulated engines ")[0]
