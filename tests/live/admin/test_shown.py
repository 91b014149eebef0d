"""What the page and the metrics say of engines is so: dead ones, errors of clients, cache hits; and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from poise.core.control.control import Control
from poise.live.gateway.prober import MOST_TOKENS
from poise.policies import Policies
from poise.policies.route.prefix_cache import PrefixCache

from .house import House, ask, house, run, until


async def engines(here: House) -> dict[str, dict[str, Any]]:
    """By name, as `/state` has them."""
    return {each["name"]: each for each in (await here.look("/state")).json["engines"].values()}


def test_an_engine_that_died_is_down_since_then_and_new_when_it_is_back() -> None:
    async def main() -> None:
        async with house() as here:
            (gone, _) = here.emulated
            await gone.stop()
            await until(lambda: len(here.gateway.world.fleet.serving) == 1)
            row = (await engines(here))["a"]
            assert row["state"] == "down"
            assert 0 <= row["down_at"] <= (await here.look("/state")).json["at"]
            page = (await here.look("/metrics")).body.decode()
            assert 'poise_engine_state{engine="a",state="down"} 1.0' in page
            assert 'poise_engine_state{engine="a",state="starting"} 0.0' in page
            (seconds,) = [line.split()[1] for line in page.splitlines() if 'down_seconds{engine="a"}' in line]
            assert float(seconds) > 0
            assert 'poise_engine_down_seconds{engine="b"} 0.0' in page
            await gone.start()
            (engine,) = [each for each in here.gateway.world.fleet if each.name == "a"]
            here.gateway.prober.remove(engine)
            await until(lambda: len([*here.gateway.world.fleet]) == 1)
            here.add("a", gone)
            await until(lambda: len(here.gateway.world.fleet.serving) == 2)
            row = (await engines(here))["a"]
            assert row["state"] == "serving" and "down_at" not in row

    run(main)


def test_a_clients_error_is_no_failure_of_the_engine() -> None:
    async def main() -> None:
        async with house(("a",)) as here:
            assert (await here.complete("x", top_p=2)).status == 400
            assert (await engines(here))["a"]["failures"] == {}
            page = (await here.look("/metrics")).body.decode()
            assert 'poise_requests_total{engine="a",code="400"} 1.0' in page, "it is counted as what it is"
            assert "poise_engine_failures_total{" not in page
            here.emulated[0].fault("reject", count=2)
            assert (await here.complete("x")).status >= 500
            assert sum((await engines(here))["a"]["failures"].values()) > 0

    run(main)


@pytest.mark.parametrize("few", [0, 1])
def test_few_answers_that_tell_do_not_speak_for_the_engine(few: int) -> None:
    """Chats do not tell what was cached, embeddings and responses may; the engine's own counter knows all."""

    async def main() -> None:
        async with house(("a",)) as here:
            row = here.gateway.stats._engines.row("a")
            for _ in range(6):
                assert (await here.complete("the same words again " * 40)).status == 200
            row.known_prompt, row.cached = few * row.prompt // 10, 0
            visit = here.gateway.prober.visits[0]
            await until(lambda: visit.reading is not None and visit.reading.counters["prefix_hits"] > 0)
            await until(lambda: visit.reading.counters["prefix_queries"] >= row.prompt)  # type: ignore[union-attr]
            assert visit.reading is not None
            counters = visit.reading.counters
            hits = (await engines(here))["a"]["hit_rate"]
            assert hits == pytest.approx(counters["prefix_hits"] / counters["prefix_queries"], abs=1e-4) and hits > 0.5
            row.known_prompt, row.cached = row.prompt, row.prompt // 4
            assert (await engines(here))["a"]["hit_rate"] == pytest.approx(0.25, abs=0.01), "all answers tell"
            visit.reading.counters.clear()
            row.known_prompt = row.prompt // 10
            visit.looks.stop()  # type: ignore[union-attr]
            assert "hit_rate" not in (await engines(here))["a"], "what neither says of all is not known"

    run(main)


def test_a_scrape_makes_one_slice_a_turn_of_the_loop() -> None:
    async def main() -> None:
        async with house(("a",)) as here:
            loop, turns, made = asyncio.get_running_loop(), [0], list[int]()

            def tick() -> None:
                turns[0] += 1
                loop.call_soon(tick)

            def page() -> Iterator[bytes]:
                for number in range(20):
                    made.append(turns[0])
                    yield b"# %d\n" % number

            here.gateway.stats.page = page  # type: ignore[method-assign]
            loop.call_soon(tick)
            answer = await here.look("/metrics")
            assert answer.body == b"".join(b"# %d\n" % number for number in range(20))
            assert len(made) == 20 == len(set(made)), "others had a turn between any two slices"

    run(main)


def test_a_page_for_a_scraper_that_left_is_not_made() -> None:
    async def main() -> None:
        async with house(("a",)) as here:
            left = asyncio.Event()
            made: list[int] = []

            def page() -> Iterator[bytes]:
                while len(made) < 10_000:
                    made.append(1)
                    if len(made) == 3:
                        left.set()
                    yield b"#\n"

            here.gateway.stats.page = page  # type: ignore[method-assign]
            _, writer = await asyncio.open_connection("127.0.0.1", here.admin_port)
            writer.write(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await left.wait()
            writer.close()
            await until(lambda: here.admin.server.open == 0)
            assert len(made) < 10_000
            assert (await ask(here.admin_port, "/health")).status == 200

    run(main)


def test_what_is_remembered_of_prompts_is_bounded_whatever_engines_tell() -> None:
    async def main() -> None:
        async with house(("a",)) as here:
            prober, settings = here.gateway.prober, here.gateway.world.settings
            visit = prober.visits[0]
            assert visit.reading is not None
            assert prober._spec(visit).cache_tokens == visit.reading.total_blocks * visit.reading.block_tokens
            visit.reading = visit.reading._replace(total_blocks=1 << 50)
            assert prober._spec(visit).cache_tokens == MOST_TOKENS
            visit.reading = None
            spec = prober._spec(visit)
            assert spec.cache_tokens == settings.prefix_tokens == 4_000_000
            state = Control(Policies(router=PrefixCache()), [spec]).state
            assert state.sent_prefixes is not None and state.prefix is not None
            for number in range(3_000):
                ids, ends = tuple(range(number * 64, number * 64 + 64)), tuple(range(64, 64 * 65, 64))
                state.sent_prefixes.send(0, ids, ends)
            kept = sum(state.prefix.held(0, (extent,), (1,)) for extent in range(3_000 * 64))
            assert kept == settings.prefix_tokens // 64, "that many pieces of 64 tokens, and 192,000 were sent"

    run(main)
