"""Routing by the engines' own word on their caches raises the engines' own hit rate."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from poise.live.traffic import words
from tests.live.real.clients import Clients, ended
from tests.live.real.engines import NAME, Pair
from tests.live.real.served import Served

pytestmark = pytest.mark.slow

TALKS, TURNS = 9, 4
"""An odd number: round robin must not keep a conversation at its engine by accident."""


async def talk(url: str) -> list[tuple[int, int]]:
    """Conversations that go on turn by turn, all at once; cached and all prompt tokens of each turn after the first."""
    clients = Clients(url)
    talks: list[list[dict[str, str]]] = [[{"role": "system", "content": words(n, 96)}] for n in range(TALKS)]
    found = []
    for turn in range(TURNS):
        answers = []
        for number, messages in enumerate(talks):
            messages.append({"role": "user", "content": words(1000 * turn + number, 150)})
            body = {"messages": messages, "max_tokens": 8, "temperature": 0, "ignore_eos": True}
            answers.append(clients.ask("/v1/chat/completions", body))
        for messages, answer in zip(talks, await ended(answers), strict=True):
            assert answer.whole, answer.error
            said: dict[str, Any] = json.loads(answer.body)
            messages.append({"role": "assistant", "content": said["choices"][0]["message"]["content"]})
            details = said["usage"]["prompt_tokens_details"] or {"cached_tokens": 0}
            if turn:
                found.append((details["cached_tokens"], said["usage"]["prompt_tokens"]))
    await clients.close()
    return found


def followed(served: Served) -> None:
    """Wait until the gateway has heard of each engine's cache, which says nothing until it changes."""

    def heard() -> bool:
        for number, engine in enumerate(served.pair.engines):
            body = {"model": NAME, "prompt": words(10**6 + number, 64), "max_tokens": 1}
            assert engine.ask("POST", "/reset_prefix_cache")[0] == engine.ask("POST", "/v1/completions", body)[0] == 200
        return all(engine["kv_events"]["state"] == "synced" for engine in served.state()["engines"].values())

    served.until(heard)


def rate(pair: Pair, folder: Path, router: str) -> tuple[float, float]:
    """The engines' own hit rate, and that of turns after the first as their answers tell it."""
    pair.clear()
    with Served(pair, folder, router) as served:
        followed(served)
        hits, asked = pair.hits()
        found = asyncio.run(talk(served.url))
        assert not any(engine["kv_events"]["counts"] for engine in served.state()["engines"].values())
    hits_now, asked_now = pair.hits()
    cached, prompt = (sum(column) for column in zip(*found, strict=True))
    return (hits_now - hits) / (asked_now - asked), cached / prompt


def test_prefix_routing_beats_round_robin(pair: Pair, tmp_path: Path) -> None:
    prefix, later = rate(pair, tmp_path, "prefix_cache")
    robin, later_robin = rate(pair, tmp_path, "round_robin")
    print(
        f"hit rate of the engines: {prefix:.1%} by prefix_cache, {robin:.1%} by round_robin; "
        f"of turns after the first: {later:.1%}, {later_robin:.1%}"
    )
    assert prefix > robin + 0.05
    assert later > 0.7, "nearly all but the new turn"
