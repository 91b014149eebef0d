"""Requests with items as an attack: what they come to is counted before it is made, and nothing in them is a crash."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.live.gateway import api as api
from poise.live.gateway.fan import parts
from poise.live.gateway.settings import Settings
from poise.live.http.exchange import Exchange
from poise.live.http.limits import Limits
from poise.live.http.loop import run
from poise.live.requests.parsed_request import BadRequest
from poise.live.requests.tenants import Tenants, parse
from tests.live.gateway.attack import Besieged, says
from tests.live.gateway.live import MODEL, Live

FANNING = Settings(held_s=10, fan_out=8)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(["{item}", '"{item}"\n', "\\{item}\u2028"])


def whole(path: bytes, body: Any) -> Exchange:
    return Exchange("POST", path, [], json.dumps(body).encode(), 0)


@given(st.lists(TEXT, min_size=1, max_size=4), st.lists(TEXT, min_size=1, max_size=5), TEXT, st.booleans())
def test_parts_have_the_stated_lengths_and_are_counted_to_the_byte(
    pieces: list[str], items: list[str], expected: str, chat: bool
) -> None:
    template = "{item}".join(["", *pieces])
    fields: dict[str, Any] = {"model": "m", "seed": 10**30, "x": {"y": [1.5, None]}}
    messages = [{"role": "user", "content": expected}]
    given = {"messages": messages} if chat else {"prompt": expected}
    path = b"/v1/chat/completions" if chat else b"/v1/completions"
    exchange = whole(path, fields | given | {"fan_out": {"template": template, "items": items}})
    some = parts(exchange, 5, 1 << 20)
    assert isinstance(some, list)
    for part, item in zip(some, items, strict=True):
        text = template.replace("{item}", item)
        last = {"messages": [*messages, {"role": "user", "content": text}]} if chat else {"prompt": expected + text}
        assert json.loads(part.body) == fields | last
    size = sum(len(part.body) for part in some)
    assert isinstance(parts(exchange, 5, size), list)
    refused = parts(exchange, 5, size - 1)
    assert isinstance(refused, BadRequest) and refused.status == 413


def test_a_bomb_of_items_is_refused_before_it_is_made() -> None:
    bomb = {"model": MODEL, "prompt": "", "fan_out": {"template": "{item}" * 20_000, "items": ["a" * 100_000]}}
    exchange = whole(b"/v1/completions", bomb)
    tracemalloc.start()
    try:
        found = parts(exchange, 8, 10 << 20)
        assert isinstance(found, BadRequest) and found.status == 413
        assert tracemalloc.get_traced_memory()[1] < 4 * len(exchange.body), "220 kB that would be 2 GB"
    finally:
        tracemalloc.stop()


HOSTILE = {
    "bad UTF-8": b'{"model":"\xff","fan_out":1}',
    "bad UTF-8 elsewhere": b'{"model":"m","prompt":"x","y":"\xff","fan_out":{"template":"{item}","items":["a"]}}',
    "bad UTF-8 in an item": b'{"model":"m","prompt":"x","fan_out":{"template":"{item}","items":["\xff"]}}',
    "bad UTF-8 in a name": b'{"model":"m","prompt":"x","\xff":1,"fan_out":{"template":"{item}","items":["a"]}}',
    "deep": b'{"model":"m","fan_out":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "deep elsewhere": b'{"x":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b',"fan_out":1}',
    "half a surrogate pair": b'{"model":"m","prompt":"x","fan_out":{"template":"{item}\\ud800","items":["a"]}}',
    "no JSON": b'{"fan_out" 3}',
    "messages that are none": b'{"model":"m","messages":5,"fan_out":{"template":"{item}","items":["a"]}}',
    "a message that is none": b'{"model":"m","messages":[5],"fan_out":{"template":"{item}","items":["a"]}}',
    "a list": b'["fan_out", {"fan_out": 1}]',
}


@pytest.mark.parametrize("path", [b"/v1/completions", b"/v1/chat/completions"])
def test_hostile_bodies_are_the_clients_mistake(path: bytes) -> None:
    async def main() -> None:
        problems: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        async with Live(1, settings=FANNING) as live:
            for name, body in HOSTILE.items():
                answer = await live.send(b"POST", path, body).wait()
                assert answer.status in (400, 404) and answer.error, (name, answer.body)  # or its model is unknown
            assert not problems, problems
            await live.check_balance()

    run(main())


def test_nothing_is_made_of_a_body_whose_key_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come in one read with its head, too soon for the gate."""
    monkeypatch.setattr(api, "parts", lambda *given: pytest.fail("somebody unknown is worked for"))
    monkeypatch.setattr(api, "READERS", {path: lambda body: pytest.fail("read") for path in api.READERS})
    fan = {"template": "{item}", "items": ["a"]}

    async def main() -> None:
        tenants = Tenants(parse("[{name: gold, key: sk-gold}]", "keys"))
        async with Live(1, settings=FANNING, tenants=tenants) as live:
            for body in (b"{", b"\xff", b"{}", json.dumps({"model": MODEL, "prompt": "x", "fan_out": fan}).encode()):
                answer = await live.send(b"POST", b"/v1/completions", body).wait()
                assert answer.status == 401 and answer.headers[b"www-authenticate"] == b"Bearer"
            await live.check_balance()

    run(main())


def test_parts_count_as_bodies_that_are_kept() -> None:
    """One megabyte that comes to eight, where all bodies together may have four."""
    small = Settings(held_s=10, fan_out=8, clients=Limits(body_bytes=10 << 20, bodies_bytes=4 << 20))
    fan = {"template": "{item}", "items": ["a"] * 8}

    async def main() -> None:
        async with Live(1, settings=small) as live:
            answer = await live.ask("x" * (1 << 20), stream=False, fan_out=fan).wait()
            assert answer.status == 503 and b"retry-after" in answer.headers and "memory" in answer.error
            assert (await live.ask("x" * 1000, stream=False, fan_out=fan).wait()).whole
            await live.check_balance()
            assert live.gateway.server.bodies.held == 0

    run(main())


ODD = [
    b"5", b"{}", b'{"choices":5}', b'{"choices":[5]}', b'{"choices":[{}],"usage":5}',
    b'{"choices":[{}],"usage":{"total_tokens":"many"}}', b"[" * 5000, b'{"choices":[{"text":"\xff"}]}',
]  # fmt: skip


@pytest.mark.parametrize("expected", ODD)
def test_an_engine_that_answers_an_item_with_nonsense_is_a_clear_error(expected: bytes) -> None:
    async def main() -> None:
        problems: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        reply = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(expected) + expected
        async with Besieged(says(reply), settings=FANNING) as live:
            answer = await live.ask(stream=False, fan_out={"template": "{item}", "items": ["a", "b"]}).wait()
            assert answer.status == 502 and "choices" in answer.error
            assert not problems, problems
            await live.check_balance()

    run(main())
