"""What Poise makes of a prompt is what vLLM makes of it: the same tokens, the same blocks in its KV events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import zmq.asyncio

from poise.live.requests.token_prefix import Exact
from poise.live.telemetry.kv_events import Change
from poise.live.telemetry.kv_socket import EventSource, Subscriber
from poise.live.traffic import words
from tests.live.real.engines import BLOCK, Pair
from tests.live.real.process import NAME
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow


TURNS: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief." + words(1, 40)},
    {"role": "user", "content": "Ünïcödé 漢字 🙂\n\n" + words(2, 50)},
    {"role": "assistant", "content": words(3, 20)},
    {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": words(4, 30)}]},
]

BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "a text": ("completion", {"prompt": words(5, 100)}),
    "a text with special tokens": ("completion", {"prompt": f"a<|user|>{words(6, 70)}</s> b <s>"}),
    "a text without BOS": ("completion", {"prompt": words(7, 70), "add_special_tokens": False}),
    "token ids": ("completion", {"prompt": [0, *range(300, 380)]}),
    "a chat": ("chat", {"messages": TURNS}),
    "a chat's first turn": ("chat", {"messages": TURNS[:2]}),
    "a chat that goes on": ("chat", {"messages": TURNS[:3], "add_generation_prompt": False}),
    "a chat with BOS twice": ("chat", {"messages": TURNS, "add_special_tokens": True}),
    "salted": ("chat", {"messages": TURNS, "cache_salt": "tenant-a"}),
    "salted otherwise": ("completion", {"prompt": words(5, 100), "cache_salt": "tenant-b"}),
    "block by block": ("completion", {"prompt": [0, *range(400, 400 + 2 * BLOCK - 1)]}),
}
PATHS = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}


@pytest.fixture
def exact(pair: Pair) -> Exact:
    return Exact.of(pair.model, BLOCK)


@pytest.mark.parametrize("name", BODIES)
def test_tokens(pair: Pair, exact: Exact, name: str) -> None:
    """As many as its own usage counts."""
    kind, given = BODIES[name]
    body = {"model": NAME, "max_tokens": 1, **given}
    status, answer = pair.engines[0].ask("POST", PATHS[kind], body)
    identity = exact.identity(kind, json.dumps(body).encode())
    assert status == 200 and identity is not None, answer
    assert identity.prompt_tokens == json.loads(answer)["usage"]["prompt_tokens"]


def test_blocks(pair: Pair, exact: Exact) -> None:
    """The blocks of all prompts are those that the engine says it stored, and no others."""
    bodies = [(kind, {"model": NAME, "max_tokens": 1, **given}) for kind, given in BODIES.values()]
    expected: set[int] = set()
    for kind, body in bodies:
        identity = exact.identity(kind, json.dumps(body).encode())
        assert identity is not None
        expected.update(identity.ids)
    assert asyncio.run(_stored(pair, exact, bodies)) == expected


async def _stored(pair: Pair, exact: Exact, bodies: list[tuple[str, dict[str, Any]]]) -> set[int]:
    """What is in the cache of an engine, by its KV events, after it was asked all this."""
    engine, stored = pair.engines[0], set[int]()
    heard = asyncio.Event()

    def reported(number: int, change: Change) -> None:
        if change.cleared:
            stored.clear()
        stored.difference_update(change.left)
        stored.update(change.entered)
        heard.set()

    async def ask(kind: str, body: dict[str, Any]) -> None:
        status, answer = await asyncio.to_thread(engine.ask, "POST", PATHS[kind], body)
        assert status == 200, answer

    context = zmq.asyncio.Context()
    follower = Subscriber(context, pair.kv_endpoint, True, [EventSource(0, engine.topic)], reported)
    follower.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not heard.is_set():  # until the engine has found the endpoint
                await asyncio.to_thread(engine.ask, "POST", "/reset_prefix_cache")
                await ask("completion", {"model": NAME, "prompt": words(8, 2 * BLOCK), "max_tokens": 1})
            pair.clear()
            for kind, body in bodies:
                await ask(kind, body)
            last = {"model": NAME, "prompt": words(9, 2 * BLOCK), "max_tokens": 1}
            await ask("completion", last)
            known = exact.identity("completion", json.dumps(last).encode())
            assert known is not None
            while not stored.issuperset(known.ids):
                heard.clear()
                await heard.wait()
        assert not follower.counts and not follower.feeds[engine.topic.encode()].blocks.counts
        return stored.difference(known.ids)
    finally:
        await follower.stop()
        context.term()
