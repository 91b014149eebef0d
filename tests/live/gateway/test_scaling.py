"""A scaler live: it decides on what the gateway knows, whoever starts engines reads the gauge, and replays agree."""

from __future__ import annotations

import copy
import re

from poise.core.action import Scale
from poise.core.control.control import Control
from poise.core.event import Tick
from poise.core.records.trace import replay
from poise.core.spec import PoolSpec
from poise.live.discovery.address import engine as place
from poise.live.gateway.fleet import EngineAt
from poise.policies.scale.keep_alive import KeepAlive
from tests.live.gateway.live import Live
from tests.live.warp import run


def gauge(live: Live, name: str) -> dict[str, int]:
    """By pool."""
    page = b"".join(live.gateway.stats.page()).decode()
    return {pool: int(float(value)) for pool, value in re.findall(name + r'\{pool="(\w+)"\} (\S+)', page)}


async def _scaled() -> tuple[Live, Control]:
    """Forty requests at once on one of two engines, for twenty replicas' worth; then nothing for a while."""
    scaler = KeepAlive(concurrency=2, keep_s=0.2, period_s=0.05)
    pools = [PoolSpec("chat", 1, 1, 12)]
    async with Live(2, scaler=scaler, pools=pools, speed=1.0) as live:
        fresh = copy.deepcopy(live.control)
        assert gauge(live, "poise_serving_replicas") == {"chat": 2}
        answers = [live.ask(tokens=100) for _ in range(40)]
        await live.until(lambda: gauge(live, "poise_desired_replicas") == {"chat": 12})
        for answer in answers:
            assert (await answer.wait()).whole
        await live.until(lambda: gauge(live, "poise_desired_replicas") == {"chat": 1})
        await live.check_balance()
        return live, fresh


def test_the_gauge_follows_the_load_and_the_record_replays() -> None:
    live, fresh = run(_scaled())
    scales = [each for each in live.trace.actions if isinstance(each, Scale)]
    assert max(each.replicas for each in scales) == 12 and scales[-1] == Scale(0, 1)
    assert any(type(each) is Tick for each in live.trace.events)
    decided = replay(live.trace.events, fresh)
    assert [each for each in decided if isinstance(each, Scale)] == scales


async def _from_none() -> list[Scale]:
    """No engine is there: the request waits, one is wanted, and when it comes the request is served."""
    pools = [PoolSpec("chat", 0, 0, 4)]
    async with Live(1, scaler=KeepAlive(keep_s=30.0, period_s=0.05), pools=pools) as live:
        (engine,) = live.gateway.world.fleet.serving
        live.gateway.prober.remove(engine)
        await live.until(lambda: not live.gateway.world.fleet.serving)
        answer = live.ask(tokens=3)
        await live.until(lambda: gauge(live, "poise_desired_replicas") == {"chat": 1})
        assert not answer.over.is_set()
        live.gateway.prober.add(EngineAt(place(live.engines[0].url, "test", "again")))
        assert (await answer.wait()).whole
        return [each for each in live.trace.actions if isinstance(each, Scale)]


def test_a_request_waits_for_the_first_engine() -> None:
    assert run(_from_none()) == [Scale(0, 1)]
