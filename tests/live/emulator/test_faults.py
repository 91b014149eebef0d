"""Every fault that can be asked for: what clients see of it, and that the engine is well behind it."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter

import pytest

from poise.live.emulator.emulated import Emulated
from poise.live.emulator.fault import FORMS, KINDS
from poise.live.http import loop
from tests.live.emulator.clients import CHAT, Line, an_engine, ask, chat, events, until

LONG = {"max_tokens": 3000, "ignore_eos": True, "stream": True}


async def well(engine: Emulated) -> None:
    """It answers, and nothing of what went wrong is left."""
    status, _, body = await ask(engine, "POST", CHAT, chat(max_tokens=4, ignore_eos=True, stream=True))
    assert status == 200 and len(events(body)) == 5
    await until(lambda: not engine.replica.running and not engine.replica.sequences)
    assert engine.replica.pool.held == engine.replica.pool.explicit == 0 and not engine.core.driver.listeners


async def refused(engine: Emulated) -> bool:
    try:
        line = await Line.to(engine)
    except ConnectionError:
        return True
    await line.close()
    return False


def test_faults_are_requested_over_http() -> None:
    async def main() -> None:
        async with an_engine() as engine:
            status, _, body = await ask(engine, "POST", "/fault", {"kind": "reject", "status": 429, "count": 1})
            assert (status, json.loads(body)) == (200, {"kind": "reject", "count": 1, "status": 429})
            assert json.loads((await ask(engine, "GET", "/fault"))[2]) == [json.loads(body)]
            status, headers, body = await ask(engine, "POST", CHAT, chat())
            assert (status, headers["retry-after"], json.loads(body)["error"]["code"]) == (429, "1", 429)
            await well(engine)
            await ask(engine, "POST", "/fault", {"kind": "reject"})
            assert (await ask(engine, "POST", CHAT, chat()))[0] == 503
            assert (await ask(engine, "GET", "/health"))[0] == 200
            assert (await ask(engine, "DELETE", "/fault"))[::2] == (200, b"[]")
            assert (await ask(engine, "POST", "/fault", {"kind": "flood"}))[0] == 400
            await well(engine)
        async with an_engine(faults=False) as engine:
            assert (await ask(engine, "POST", "/fault", {"kind": "reject"}))[0] == 404

    loop.run(main())


def test_cut() -> None:
    """So many tokens, then the connection breaks without the chunk that ends an answer."""

    async def main() -> None:
        async with an_engine() as engine:
            engine.fault("cut", after_tokens=5, count=1)
            line = await Line.to(engine)
            line.send("POST", CHAT, chat(**LONG))
            got = await line.rest()
            assert got.count(b"data: ") == 1 + 5 and not got.endswith(b"0\r\n\r\n")
            await line.close()
            await well(engine)
            engine.fault("cut", count=1)
            line = await Line.to(engine)
            line.send("POST", CHAT, chat(max_tokens=5))
            assert b"HTTP" not in await line.rest(), "an answer that is not streamed never begins"
            await line.close()
            await well(engine)

    loop.run(main())


@pytest.mark.parametrize("form", ["sse", "chunk", "http"])
def test_garbage(form: str) -> None:
    async def main() -> None:
        async with an_engine() as engine:
            for stream in (True, False):
                engine.fault("garbage", form=form, after_tokens=2, count=1)
                line = await Line.to(engine)
                line.send("POST", CHAT, chat(max_tokens=4, ignore_eos=True, stream=stream), connection="close")
                got = await line.rest()
                assert {"sse": b"no json", "chunk": b"no length", "http": b"no HTTP"}[form] in got
                if stream:
                    assert got.count(b'"finish_reason"') == (5 if form == "sse" else 3)
                assert got.startswith(b"HTTP/1.1 200") == (stream or form != "http")
                await line.close()
                await well(engine)

    loop.run(main())


def test_stall() -> None:
    """No byte, of streams or of anything else; then everything goes on where it stood."""

    async def main() -> None:
        async with an_engine() as engine:
            line = await Line.to(engine)
            line.send("POST", CHAT, chat(**LONG))
            await until(lambda: engine.core.metrics.tokens > 3)
            engine.fault("stall")
            made = engine.core.metrics.tokens
            health, gone = await Line.to(engine), await Line.to(engine)
            health.send("GET", "/health")
            gone.send("POST", CHAT, chat(**LONG))
            await until(lambda: len(engine.service.parked) == 2)
            await gone.close()
            await until(lambda: len(engine.service.parked) == 1)
            assert engine.core.metrics.tokens == made
            assert json.loads((await ask(engine, "GET", "/fault"))[2]) == [{"kind": "stall"}]
            engine.clear()
            assert (await health.answer())[0] == 200
            assert len(events((await line.answer())[2])) == 1 + 3000
            await health.close()
            await line.close()
            await well(engine)

    loop.run(main())


def test_a_fault_ends_by_itself() -> None:
    async def main() -> None:
        async with an_engine() as engine:
            engine.fault("stall", for_s=0.01)
            await well(engine)
            assert not engine.faults.active

    loop.run(main())


def test_slow() -> None:
    """Steps take a factor longer, from the next one on, and no longer when it is over."""

    async def main() -> None:
        async with an_engine() as engine:
            line = await Line.to(engine)
            line.send("POST", CHAT, chat(**LONG))
            lane = engine.replica.decode_lane
            await until(lambda: lane.group.n == 1 and lane.steps > 1)
            before = lane.first
            engine.fault("slow", factor=50)
            await until(lambda: lane.first > 40 * before)
            engine.clear()
            await until(lambda: lane.first < 2 * before)
            assert len(events((await line.answer())[2])) == 1 + 3000
            await line.close()
            await well(engine)

    loop.run(main())


def test_refuse() -> None:
    """New connections are refused; the answers under way come to their end; then the same port is open again."""

    async def main() -> None:
        async with an_engine() as engine:
            line, port = await Line.to(engine), engine.port
            line.send("POST", CHAT, chat(**LONG))
            await until(lambda: engine.core.metrics.tokens > 0)
            engine.fault("refuse")
            assert await refused(engine)
            assert len(events((await line.answer())[2])) == 1 + 3000
            await line.close()
            engine.clear()
            await engine.settled()
            assert engine.port == port
            await well(engine)

    loop.run(main())


def test_crash() -> None:
    """Streams break, nobody listens, and what comes back has forgotten everything."""

    async def main() -> None:
        async with an_engine() as engine:
            lines, port = [await Line.to(engine) for _ in range(3)], engine.port
            for line in lines[1:]:
                line.send("POST", CHAT, chat("x" * 400, **LONG))
            await until(lambda: engine.core.metrics.tokens > 3 and engine.replica.pool.nodes)
            engine.fault("crash")
            for line in lines:
                got = await line.rest()
                assert not got.endswith(b"0\r\n\r\n")
                await line.close()
            await engine.settled()
            assert await refused(engine) and engine.server.connections == 0
            engine.clear()
            await engine.settled()
            assert engine.port == port and not engine.replica.pool.nodes and engine.core.metrics.tokens == 0
            await well(engine)
            engine.fault("crash", for_s=0.01)
            await until(lambda: not engine.faults.active)
            await engine.settled()
            await well(engine)

    loop.run(main())


def test_half_open() -> None:
    """Requests are taken and never answered, not even when the fault is over."""

    async def main() -> None:
        async with an_engine() as engine:
            engine.fault("half_open")
            lines = [await Line.to(engine) for _ in range(2)]
            lines[0].send("GET", "/health")
            lines[1].send("POST", CHAT, chat())
            await until(lambda: engine.server.open == 2)
            engine.clear()
            await well(engine)
            assert engine.server.open == 2
            for line in lines:
                await line.close()
            await until(lambda: engine.server.open == 0)

    loop.run(main())


def test_stopping_in_the_middle_of_everything() -> None:
    async def main() -> None:
        for kind in ("stall", "slow", "refuse", "crash", "half_open", "cut"):
            async with an_engine() as engine:
                line = await Line.to(engine)
                line.send("POST", CHAT, chat(**LONG))
                await until(lambda: engine.core.metrics.tokens > 0)
                engine.fault(kind)
            await line.close()

    loop.run(main())


async def meet(engine: Emulated, number: int, stream: bool) -> str:
    """One request, and how it ended for its client."""
    try:
        line = await Line.to(engine)
    except ConnectionError:
        return "refused"
    line.send("POST", CHAT, chat(f"{number} " * 20, max_tokens=30, ignore_eos=True, stream=stream), connection="close")
    try:
        got = await line.rest()
    finally:
        await line.close()
    if got.startswith(b"HTTP/1.1 200") and got.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"):
        return "spoilt" if b"no json" in got else "whole"
    if got.startswith(b"HTTP/1.1 200") and b'"completion_tokens":30' in got:
        return "whole"
    return "rejected" if got.startswith(b"HTTP/1.1 503") else "broken"


def storm(seed: int, faults: int) -> Counter[str]:
    """Requests by the dozen while one random fault follows the other; nothing is left behind any of them."""
    rng = random.Random(seed)
    ends: Counter[str] = Counter()

    async def main() -> None:
        async with an_engine(num_gpu_blocks_override=200, max_model_len=1000, max_num_seqs=6) as engine:
            for number in range(faults):
                kind = rng.choice([kind for kind in KINDS if kind != "half_open"])
                pending = [asyncio.ensure_future(meet(engine, 20 * number + n, rng.random() < 0.6)) for n in range(12)]
                for _ in range(rng.randrange(400)):
                    await asyncio.sleep(0)
                count = rng.choice((None, 1, 5)) if kind in ("cut", "garbage", "reject") else None
                form, factor = rng.choice([*FORMS]), rng.choice((0.5, 9.0))
                engine.fault(kind, after_tokens=rng.randrange(33), count=count, form=form, factor=factor)
                pending += [asyncio.ensure_future(meet(engine, 20 * number + n, True)) for n in range(12, 16)]
                for _ in range(rng.randrange(400)):
                    await asyncio.sleep(0)
                engine.clear()
                await engine.settled()
                ends.update(await asyncio.gather(*pending))
                await well(engine)
                engine.replica.pool.check(0)
                assert engine.server.open == 0 and not engine.service.parked

    loop.run(main())
    return ends


def test_a_storm_of_faults() -> None:
    ends = storm(1, 10)
    assert sum(ends.values()) == 10 * 16 and ends["whole"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_longer_storms(seed: int) -> None:
    ends = storm(seed, 30)
    assert sum(ends.values()) == 30 * 16 and ends["whole"] > 0
