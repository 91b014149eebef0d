"""Engines that push their KV events into one socket of the gateway's, and come and go."""

from __future__ import annotations

import socket

from poise.core.spec import Belief
from poise.live.discovery.address import Engine as Place
from poise.live.emulator.options import Options
from poise.live.emulator.publish import KvEvents
from poise.live.gateway.caches import Caches
from poise.live.gateway.fleet import Engine, EngineAt
from poise.live.http.loop import run
from tests.live.gateway.fakes import Bench, FakePool
from tests.live.gateway.live import MODEL, Live


def test_engines_share_a_socket_that_the_gateway_binds() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        bound = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    engines = [
        Options(MODEL, port=0, speed=20, kv_events_config=KvEvents(True, endpoint=bound, topic=f"kv@{number}"))
        for number in range(3)
    ]

    async def main() -> None:
        async with Live(engines, kv_bind=bound, belief=Belief(prefix="reported")) as live:
            gateway = live.gateway

            def synced() -> set[int]:
                return {slot for slot, (state, _) in gateway.caches.followed().items() if state == "synced"}

            async def all_heard() -> None:
                number = 0
                while synced() != {engine.slot for engine in gateway.world.fleet}:
                    answers = [live.ask(f"Tale {number} of {engine} " * 40, 2) for engine in range(3)]
                    assert all([(await answer.wait()).whole for answer in answers])
                    number += 1

            await all_heard()
            leaver = gateway.world.fleet.engine(1)
            gateway.prober.remove(leaver)
            assert set(gateway.caches.followed()) == {0, 2}, "the others are followed on"
            assert synced() == {0, 2}
            await live.until(lambda: len(list(gateway.world.fleet)) == 2)
            gateway.prober.add(leaver.at)
            await live.until(lambda: len(gateway.world.fleet.serving) == 3)
            await all_heard()

    run(main())


def test_a_slot_belongs_to_its_engine_alone() -> None:
    """Who is removed once more, or found lost, after its slot was given to another does not disturb that one."""

    async def main() -> None:
        bench = Bench(0, slots=1, belief=Belief(prefix="reported"))
        caches = Caches(bench.world)

        def engine(name: str, port: int) -> Engine:
            at = EngineAt(Place(name, "127.0.0.1", 1), kv_events=f"tcp://127.0.0.1:{port}")
            return Engine(at, 0, FakePool(at), lambda *note: None)

        before, after = engine("before", 9), engine("after", 10)
        caches.add(before)
        assert caches.followed() == {0: ("waiting", {})}
        caches.remove(before)
        assert caches.followed() == {}
        caches.add(after)
        for _ in range(2):
            caches.remove(before)
            caches.lost(before)
        assert list(caches.followed()) == [0]
        caches.lost(after)
        assert [change.cleared for change in bench.trace.items()] == [True]  # type: ignore[union-attr]
        await caches.close()

    run(main())


def test_a_prompt_that_no_engine_takes_hears_so_at_once() -> None:
    """In the engine's words, not after the longest wait."""

    async def main() -> None:
        async with Live([Options(MODEL, port=0, speed=20, max_model_len=1000)] * 2) as live:
            answer = await live.ask("word " * 4000, 4).wait()
            assert answer.status == 400 and "maximum context length is 1000 tokens" in answer.error
            assert (await live.ask("word " * 100, 4).wait()).whole
            await live.check_balance()

    run(main())
