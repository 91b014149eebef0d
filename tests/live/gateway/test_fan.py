"""Requests with items over real sockets: one answer for all, on one engine, or one clear error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from poise.core.action import Dispatch
from poise.live.gateway.fan import Fan, parts
from poise.live.gateway.settings import Settings
from poise.live.http.exchange import Exchange
from poise.live.requests.parsed_request import BadRequest
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.route.round_robin import RoundRobin
from tests.live.gateway.live import MODEL, Live
from tests.live.warp import run

ITEMS = ["one", "two", "three", "four"]
FAN = {"template": " Say {item} again.", "items": ITEMS}
FANNING = Settings(held_s=10, fan_out=8)
CONTEXT = "All of this is shared by every item. " * 40


def _chat(live: Live, **given: Any) -> Any:
    body = {"model": MODEL, "messages": [{"role": "user", "content": CONTEXT}], "max_tokens": 5, **given}
    return live.send(b"POST", b"/v1/chat/completions", json.dumps(body).encode())


def _engines(live: Live) -> list[int]:
    return [each.replica for each in live.trace.actions if isinstance(each, Dispatch)]


def test_each_item_has_a_choice_and_all_have_one_answer() -> None:
    async def main() -> None:
        async with Live(2, PrefixCache(), settings=FANNING) as live:
            answer = await live.ask(CONTEXT, 6, stream=False, fan_out=FAN).wait()
            result = json.loads(answer.body)
            assert answer.status == 200 and [each["index"] for each in result["choices"]] == [0, 1, 2, 3]
            assert result["usage"]["completion_tokens"] == 4 * 6 and result["model"] == MODEL
            one = json.loads((await live.ask(CONTEXT + " Say one again.", 6, stream=False).wait()).body)
            assert result["choices"][0]["text"] == one["choices"][0]["text"]
            chat = json.loads((await _chat(live, fan_out=FAN).wait()).body)
            assert [each["index"] for each in chat["choices"]] == [0, 1, 2, 3]
            assert all(each["message"]["role"] == "assistant" for each in chat["choices"])
            await live.check_balance()

    run(main())


def test_a_router_by_prefix_keeps_them_together() -> None:
    async def main() -> None:
        for router, used in ((PrefixCache(), 1), (RoundRobin(), 2)):
            async with Live(2, router, settings=FANNING) as live:
                await live.ask(CONTEXT, 6, stream=False, fan_out=FAN).wait()
                assert len(_engines(live)) == len(ITEMS) and len(set(_engines(live))) == used

    run(main())


BAD = {
    "fan_out.items has 9 items; give 1 to 8": {"fan_out": {"template": "{item}", "items": ["a"] * 9}},
    "fan_out.items has 0 items": {"fan_out": {"template": "{item}", "items": []}},
    "fan_out.template has no {item}": {"fan_out": {"template": "item", "items": ["a"]}},
    "leave out stream and n": {"fan_out": FAN, "stream": True},
    "fan_out: Object missing required field `items`": {"fan_out": {"template": "{item}"}},
    "fan_out: Object contains unknown field `item`": {"fan_out": {"template": "{item}", "items": ["a"], "item": 1}},
    "fan_out: Expected `object`, got `int`": {"fan_out": 3},
    "a prompt that is one text": {"fan_out": FAN, "prompt": [1, 2]},
}


def test_what_cannot_be_parted_is_refused_with_the_reason() -> None:
    async def main() -> None:
        async with Live(1, settings=FANNING) as live:
            for expected, given in BAD.items():
                answer = await live.ask(**{"stream": False, **given}).wait()
                assert answer.status == 400 and expected in answer.error, (expected, answer.body)
            assert not _engines(live)
            unknown = await live.ask(stream=False, fan_out=FAN, model="unknown").wait()
            assert unknown.status == 404 and "does not exist" in unknown.error
            broken = await live.send(b"POST", b"/v1/completions", b'{"fan_out" 3}').wait()
            assert broken.status == 400 and "not valid JSON" in broken.error
            await live.check_balance()

    run(main())


def test_parts_are_bounded_as_one_body_is() -> None:
    whole = Exchange("POST", b"/v1/completions", [], json.dumps({"prompt": "x" * 900, "fan_out": FAN}).encode(), 0)
    found = parts(whole, 8, 3000)
    assert isinstance(found, BadRequest) and found.status == 413
    some = parts(whole, 8, 4000)
    assert isinstance(some, list) and len(some) == len(ITEMS)


class Whole(Exchange):
    """A client that notes the status of its answer among `left`."""

    left: list[int]

    def answer(self, status: int, *rest: Any) -> None:
        self.left.append(status)


def test_an_answer_without_an_end_ends_them_all() -> None:
    whole = Whole("POST", b"/v1/completions", [], json.dumps({"prompt": "", "fan_out": FAN}).encode(), 0)
    left = whole.left = []
    some = parts(whole, 8, 4000)
    assert isinstance(some, list)
    Fan(whole, some, lambda part: setattr(part, "gone", lambda: left.append(some.index(part))))  # type: ignore[arg-type]
    some[2].start(200, [])
    for _ in range(20):
        some[2].write(bytes(2**20))
    assert left == [2, 0, 1, 3, 502], "the one that does not end, then the others, then the client"


def test_no_request_is_taken_apart_without_the_option() -> None:
    """Without the setting, and where the words stand in a prompt, requests go on as they are."""

    async def main() -> None:
        async with Live(1) as live:
            assert (await live.ask(stream=False, fan_out=FAN).wait()).whole
            assert len(_engines(live)) == 1
        async with Live(1, settings=FANNING) as live:
            assert (await live.ask('what is "fan_out"?', stream=False).wait()).whole
            assert len(_engines(live)) == 1

    run(main())


def test_a_client_that_leaves_takes_all_parts_along() -> None:
    async def main() -> None:
        async with Live(2, settings=FANNING) as live:
            answer = live.ask(CONTEXT, 4000, stream=False, fan_out=FAN)
            await live.until(lambda: len(_engines(live)) == len(ITEMS))
            assert answer.call is not None
            answer.call.cancel()
            await live.check_balance()

    run(main())


@pytest.mark.parametrize("tokens", [6, 100_000_000])
def test_one_part_that_fails_is_the_answer(tokens: int) -> None:
    """The engine refuses a prompt that is too long for it; the others' work is called off."""

    async def main() -> None:
        async with Live(1, settings=FANNING) as live:
            long = {"template": "{item}", "items": ["short", "long " * 200_000]}
            answer = await live.ask("", tokens, stream=False, fan_out=long).wait()
            assert answer.status == 400 and answer.error
            await live.check_balance()

    run(main())
