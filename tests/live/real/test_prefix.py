"""Routing by the engines' own word on their caches raises the engines' own hit rate."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from poise.live.traffic import words
from tests.live.real.clients import Clients, ended
from tests.live.real.engines import BLOCK, Pair
from tests.live.real.process import NAME
from tests.live.real.served import Served, in_front_of

pytestmark = pytest.mark.slow

TALKS, TURNS = 9, 4
"""An odd number: round robin must not keep a conversation at its engine by accident."""


class Turn(NamedTuple):
    """Tokens of one prompt: those found cached, all, and those of the prompt of the turn before."""

    cached: int
    prompt: int
    before: int

    @property
    def found(self) -> bool:
        """Whether the engine knew the turn before: at least its whole blocks."""
        return self.cached >= self.before // BLOCK * BLOCK


async def talk(url: str) -> list[Turn]:
    """Conversations that go on turn by turn, all at once; each turn after the first."""
    clients = Clients(url)
    talks: list[list[dict[str, str]]] = [[{"role": "system", "content": words(n, 96)}] for n in range(TALKS)]
    turns, before = [], [0] * TALKS
    for turn in range(TURNS):
        answers = []
        for number, messages in enumerate(talks):
            messages.append({"role": "user", "content": words(1000 * turn + number, 150)})
            body = {"messages": messages, "max_tokens": 8, "temperature": 0, "ignore_eos": True}
            answers.append(clients.ask("/v1/chat/completions", body))
        for number, (messages, answer) in enumerate(zip(talks, await ended(answers), strict=True)):
            assert answer.whole, answer.error
            result: dict[str, Any] = json.loads(answer.body)
            messages.append({"role": "assistant", "content": result["choices"][0]["message"]["content"]})
            details = result["usage"]["prompt_tokens_details"] or {"cached_tokens": 0}
            prompt = result["usage"]["prompt_tokens"]
            if turn:
                turns.append(Turn(details["cached_tokens"], prompt, before[number]))
            before[number] = prompt
    await clients.close()
    return turns


def followed(pair: Pair, served: Served) -> None:
    """Wait until the gateway has heard of each engine's cache, which says nothing until it changes."""

    def heard() -> bool:
        for number, engine in enumerate(pair.engines):
            body = {"model": NAME, "prompt": words(10**6 + number, 64), "max_tokens": 1}
            assert engine.ask("POST", "/reset_prefix_cache")[0] == engine.ask("POST", "/v1/completions", body)[0] == 200
        return all(engine["kv_events"]["state"] == "synced" for engine in served.state()["engines"].values())

    served.until(heard, "the gateway has heard of both caches")


def rate(pair: Pair, folder: Path, router: str) -> tuple[float, list[Turn]]:
    """The engines' own hit rate, and the turns after the first as their answers tell."""
    pair.clear()
    with in_front_of(pair, folder, router) as served:
        followed(pair, served)
        hits, tokens = pair.hits()
        turns = asyncio.run(talk(served.url))
        assert not any(engine["kv_events"]["counts"] for engine in served.state()["engines"].values())
    hits_now, tokens_now = pair.hits()
    return (hits_now - hits) / (tokens_now - tokens), turns


def test_prefix_routing_beats_round_robin(pair: Pair, tmp_path: Path) -> None:
    prefix, later = rate(pair, tmp_path, "prefix_cache")
    robin, later_robin = rate(pair, tmp_path, "round_robin")
    known, known_robin = (sum(turn.found for turn in turns) / len(turns) for turns in (later, later_robin))
    print(
        f"hit rate of the engines: {prefix:.1%} by prefix_cache, {robin:.1%} by round_robin; "
        f"turns that found the one before: {known:.0%}, {known_robin:.0%}"
    )
    assert prefix > robin + 0.05
    assert known > 0.85 > known_robin, "an event that comes late sends a turn elsewhere"
