"""Two servers of llama.cpp behind the gateway: answers, streams, metrics, slots, prefix caches, and faults."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from poise.live.traffic import words
from tests.cached import Unavailable
from tests.live.real import faults, gguf
from tests.live.real.answers import CHAT, chunks, text
from tests.live.real.clients import Clients, ended, until
from tests.live.real.llama_cpp import SLOTS, LlamaCpp, built
from tests.live.real.process import NAME, START_S
from tests.live.real.served import Served

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[LlamaCpp]]:
    folder = tmp_path_factory.mktemp("llama")
    try:
        program, model = built(), gguf.make(folder / "model")
    except Unavailable as why:
        pytest.skip(str(why))
    servers = [LlamaCpp(program=program, model=model, log=folder / f"llama{number}.log") for number in range(2)]
    try:
        yield servers
    finally:
        for server in servers:
            server.kill()


@pytest.fixture
def engines(started: list[LlamaCpp]) -> list[LlamaCpp]:
    """Two servers that run, those started again that a test has killed."""
    for server in (starting := [each for each in started if not each.runs()]):
        server.start()
    for server in starting:
        server.wait(time.monotonic() + START_S)  # a server that was built must start
    return started


@pytest.fixture
def served(engines: list[LlamaCpp], tmp_path: Path) -> Iterator[Served]:
    at = [{"url": engine.url, "name": f"e{number}"} for number, engine in enumerate(engines)]
    with Served(tmp_path, at) as served:
        yield served


def chat(served: Served, **fields: Any) -> dict[str, Any]:
    """A whole answer through the gateway."""
    status, body = served.ask("POST", "/v1/chat/completions", {**CHAT, **fields})
    assert status == 200, body
    return dict(json.loads(body))


def test_a_stream_is_the_engines_own(engines: list[LlamaCpp], served: Served) -> None:
    """The same text and the same end as without the gateway, and as in a whole answer."""
    body = {**CHAT, "stream_options": {"include_usage": True}, "cache_prompt": False}
    direct, through = (chunks(url, body) for url in (engines[0].url, served.url))
    assert text(direct) and text(through) == text(direct)
    assert [each["choices"] for each in through] == [each["choices"] for each in direct]
    assert through[-1]["usage"] == direct[-1]["usage"]
    assert through[-1]["usage"]["completion_tokens"] == CHAT["max_tokens"]
    assert chat(served, cache_prompt=False)["choices"][0]["message"]["content"] == text(direct)


def test_its_own_fields_reach_it(engines: list[LlamaCpp], served: Served) -> None:
    """`id_slot` places a request, `cache_prompt` decides whether what the slot holds is used."""
    prompt = [{"role": "user", "content": words(50, 200)}]

    def cached_tokens(**fields: Any) -> int:
        return int(chat(served, messages=prompt, max_tokens=4, id_slot=2, **fields)["timings"]["cache_n"])

    total = chat(served, messages=prompt, max_tokens=4, id_slot=2)["usage"]["prompt_tokens"]
    assert cached_tokens() == total - 1, "all but the last token is in the slot's cache"
    assert cached_tokens(cache_prompt=False) == 0


def test_its_errors_come_through(engines: list[LlamaCpp], served: Served) -> None:
    for wrong in ({**CHAT, "temperature": "hot"}, {**CHAT, "messages": [{"role": "user", "content": words(2, 5000)}]}):
        direct = engines[0].ask("POST", "/v1/chat/completions", wrong)
        assert direct[0] == 400
        assert served.ask("POST", "/v1/chat/completions", wrong) == direct


def test_its_metrics_are_read(engines: list[LlamaCpp], served: Served) -> None:
    """Requests beyond its slots wait there: the gateway sees both numbers, and the tokens found in caches."""

    async def main() -> None:
        clients = Clients(engines[0].url)  # past the gateway, so that it knows only what is reported
        answers = faults.load(clients, 500, 4 * SLOTS, 500)

        def seen() -> bool:
            columns = engines[0].reading().columns
            return columns["running"] == SLOTS and columns["waiting"] > 0

        def reported() -> bool:
            return any(each.get("waiting") for each in served.state()["engines"].values())

        caught: list[bool] = []

        def caught_or_over() -> bool:
            caught[:] = [seen()]
            return caught[0] or all(answer.over.is_set() for answer in answers)

        await until(caught_or_over, lambda: f"{SLOTS} requests run and others wait: {engines[0].reading().columns}")
        if caught[0]:
            await until(reported, "the gateway reports that requests wait there")
        assert faults.ends(await ended(answers)) == ["answer"] * 4 * SLOTS
        await clients.close()
        if not caught[0]:
            pytest.skip("llama.cpp answered no query of its metrics while its slots were taken: the machine is slow")

    asyncio.run(main())
    reading = engines[0].reading()
    assert reading.profile == "llama.cpp"
    before = reading.counters
    body = {**CHAT, "messages": [{"role": "user", "content": words(60, 300)}], "id_slot": 1}
    usages = [json.loads(engines[0].ask("POST", "/v1/chat/completions", body)[1])["usage"] for _ in range(2)]
    after = engines[0].reading().counters
    assert after["prefix_queries"] - before["prefix_queries"] == sum(each["prompt_tokens"] for each in usages)
    found = sum(each["prompt_tokens_details"]["cached_tokens"] for each in usages)
    assert after["prefix_hits"] - before["prefix_hits"] == found > 0


def test_a_conversation_stays_where_its_prefix_is(served: Served) -> None:
    """Each turn finds the one before in the cache of its engine, though two engines could answer."""

    async def main() -> list[float]:
        clients = Clients(served.url)
        talks: list[list[dict[str, str]]] = [
            [{"role": "system", "content": words(900 + each, 100)}] for each in range(4)
        ]
        shares = []
        for turn in range(4):
            for number, messages in enumerate(talks):
                messages.append({"role": "user", "content": words(7000 + 10 * turn + number, 40)})
                body = {"messages": messages, "max_tokens": 8, "temperature": 0, "ignore_eos": True}
                (answer,) = await ended([clients.ask("/v1/chat/completions", body)])
                result = json.loads(answer.body)
                messages.append({"role": "assistant", "content": result["choices"][0]["message"]["content"]})
                usage = result["usage"]
                if turn:
                    shares.append(usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"])
        await clients.close()
        return shares

    shares = asyncio.run(main())
    assert sum(share > 0.5 for share in shares) >= len(shares) - 1, shares


def test_its_models_are_listed(served: Served) -> None:
    status, body = served.ask("GET", "/v1/models")
    assert status == 200 and [each["id"] for each in json.loads(body)["data"]] == [NAME]


def test_a_client_that_leaves_frees_the_engine(engines: list[LlamaCpp], served: Served) -> None:
    """Of streams alone: for whole answers it looks whether the client is there after a second without any result."""
    faults.client_leaves(engines, served, whole=7)


def test_it_drains(engines: list[LlamaCpp], served: Served) -> None:
    faults.gateway_drains(engines, served)


def test_an_engine_is_killed(engines: list[LlamaCpp], served: Served) -> None:
    faults.engine_is_killed(engines, served)
