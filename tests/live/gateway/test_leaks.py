"""Twenty thousand requests with every fate leave nothing behind: no memory, sockets, tasks or counts."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc

import psutil
import pytest

from poise.live.emulator.options import Options
from poise.live.gateway.settings import Settings
from poise.live.http.limits import PoolLimits
from poise.policies.find import build
from tests.live.gateway.live import MODEL, Answer, Live
from tests.live.warp import run

ROUNDS, EACH = 10, 2_000
FATES = ("stream", "whole", "leave", "leave early", "bad", "unknown", "fault")


async def a_round(live: Live, draw: random.Random, requests: int) -> None:
    """So many requests, some dozens at a time, each with a fate of its own."""
    answers: list[Answer] = []
    for number in range(requests):
        fate = draw.choice(FATES)
        if fate == "bad":
            answers.append(live.send(b"POST", b"/v1/completions", b'{"model": 7'))
        elif fate == "unknown":
            answers.append(live.ask(model="unknown"))
        else:
            if fate == "fault" and number % 20 == 0:
                live.engines[number % 2].fault("cut", count=2, after_tokens=draw.choice([0, 2]))
            headers = [(b"x-session-id", b"s%d" % draw.randrange(50))]
            prompt = f"Tale {draw.randrange(30)} " * draw.randint(1, 30)
            answer = live.ask(prompt, draw.randint(1, 8), stream=fate != "whole", headers=headers)
            if fate.startswith("leave"):
                if fate == "leave":
                    await answer.began.wait()
                if not answer.over.is_set():
                    assert answer.call is not None
                    answer.call.cancel()
                continue
            answers.append(answer)
        if len(answers) >= 50:
            for each in answers:
                await each.wait()
            answers.clear()
    for each in answers:
        await each.wait()
    await live.check_balance()


async def used(live: Live) -> tuple[int, int, int]:
    """Bytes allocated by Python, sockets of this process, and tasks of the loop, once all is quiet."""
    await live.pool.close()
    await live.until(lambda: live.gateway.server.connections == 0)
    for engine in live.gateway.world.fleet:
        await live.until(lambda e=engine: e.pool.connections <= 2)  # type: ignore[misc]
    gc.collect()
    sockets = len(psutil.Process().net_connections("inet"))
    return tracemalloc.get_traced_memory()[0], sockets, len(asyncio.all_tasks())


@pytest.mark.slow
def test_nothing_is_left_behind() -> None:
    async def main() -> None:
        settings = Settings(held_s=10, engines=PoolLimits(connect_s=1, head_s=2, stall_s=2, idle_s=0.2))
        chosen = {"order": build("order", "virtual_token_counter"), "admission": [build("admission", "ceiling")]}
        small = Options(MODEL, port=0, speed=200.0, faults=True, num_gpu_blocks_override=256, max_model_len=2048)
        async with Live([small] * 2, build("router", "least_requests"), settings=settings, **chosen) as live:
            live.gateway.world.keep = None  # a trace is meant to grow
            draw = random.Random(7)
            await a_round(live, draw, EACH)  # caches, tables and pools fill
            tracemalloc.start()
            await a_round(live, draw, EACH)
            memory, sockets, tasks = await used(live)
            for _ in range(ROUNDS - 2):
                await a_round(live, draw, EACH)
            after, sockets_after, tasks_after = await used(live)
            tracemalloc.stop()
            grown = (after - memory) / (ROUNDS - 2) / EACH
            print(
                f"\n{grown:.1f} bytes a request; sockets {sockets} -> {sockets_after}; tasks {tasks} -> {tasks_after}"
            )
            assert grown < 100, "one request with its trip and exchange is thousands of bytes"
            assert sockets_after <= sockets + 4 and tasks_after <= tasks + 2

    run(main())
