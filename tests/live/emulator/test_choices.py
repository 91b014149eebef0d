"""Several choices of one request: equal prompts, answers of their own, one answer for all, over real sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from poise.live.http import loop
from tests.live.emulator.clients import Line, an_engine, ask, events, until

CHAT = {"messages": [{"role": "user", "content": "Tell me something. " * 20}], "max_tokens": 30}
COMPLETION = {"prompt": "Once upon a time", "max_tokens": 30}
PATHS = [("/v1/chat/completions", CHAT), ("/v1/completions", COMPLETION)]


def text_of(choice: dict[str, Any]) -> str:
    return str(choice["message"]["content"] if "message" in choice else choice["text"])


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_choices_are_numbered_and_differ_and_the_first_is_the_only_one(path: str, body: dict[str, Any]) -> None:
    async def main() -> None:
        async with an_engine(enable_prompt_tokens_details=True) as engine:
            one = json.loads((await ask(engine, "POST", path, body))[2])
            many = json.loads((await ask(engine, "POST", path, {**body, "n": 4}))[2])
            assert [choice["index"] for choice in many["choices"]] == [0, 1, 2, 3]
            texts = [text_of(choice) for choice in many["choices"]]
            assert texts[0] == text_of(one["choices"][0]) and len(set(texts)) == 4
            usage = many["usage"]
            assert usage["prompt_tokens"] == one["usage"]["prompt_tokens"], "the prompt counts once"
            assert usage["completion_tokens"] == sum(len(text) // 4 for text in texts)
            assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
            assert not engine.replica.sequences

    loop.run(main())


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_stream_of_choices_has_their_texts(path: str, body: dict[str, Any]) -> None:
    """Roles of all come first; each has a last chunk with its reason; usage is of all, once."""

    async def main() -> None:
        async with an_engine() as engine:
            whole = json.loads((await ask(engine, "POST", path, {**body, "n": 3}))[2])
            options = {"n": 3, "stream": True, "stream_options": {"include_usage": True}}
            chunks = events((await ask(engine, "POST", path, {**body, **options}))[2])
        assert (
            chunks[-1]["choices"] == []
            and chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
        )
        choices = [chunk["choices"][0] for chunk in chunks[:-1]]
        if "messages" in body:
            assert [choice["delta"].get("role") for choice in choices[:3]] == ["assistant"] * 3
        for index, expected in enumerate(whole["choices"]):
            mine = [choice for choice in choices if choice["index"] == index]
            assert "".join(
                each["delta"].get("content", "") if "delta" in each else each["text"] for each in mine
            ) == text_of(expected)
            assert [each["finish_reason"] for each in mine if each["finish_reason"]] == [expected["finish_reason"]]
            assert mine[-1]["finish_reason"]

    loop.run(main())


def test_choices_cost_their_tokens_and_their_prompt_once_where_it_is_cached() -> None:
    async def main() -> None:
        async with an_engine(enable_prompt_tokens_details=True) as engine:
            head = {"x-emulated-output-tokens": "20"}
            await ask(engine, "POST", "/v1/chat/completions", {**CHAT, "n": 5}, **head)
            page = (await ask(engine, "GET", "/metrics"))[2].decode()
            (made,) = [line for line in page.splitlines() if line.startswith("vllm:generation_tokens_total{")]
            assert float(made.rpartition(" ")[2]) == 100

    loop.run(main())


def test_a_client_that_leaves_stops_all_choices() -> None:
    async def main() -> None:
        async with an_engine(speed=1.0) as engine:
            line = await Line.to(engine)
            line.send(
                "POST",
                "/v1/completions",
                {**COMPLETION, "n": 3, "max_tokens": 2000, "ignore_eos": True, "stream": True},
            )
            await line.line()
            assert len(engine.replica.sequences) == 3
            await line.close()
            await until(lambda: not engine.replica.sequences)

    loop.run(main())


def test_choices_have_calls_and_json_of_their_own() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"q": {"type": "string"}}}}}]

    async def main() -> None:
        async with an_engine() as engine:
            body = {**CHAT, "max_tokens": 99, "n": 3, "tools": tools, "tool_choice": "required"}
            choices = json.loads((await ask(engine, "POST", "/v1/chat/completions", body))[2])["choices"]
        calls = [choice["message"]["tool_calls"][0] for choice in choices]
        assert len({call["id"] for call in calls}) == 3
        assert all(isinstance(json.loads(call["function"]["arguments"])["q"], str) for call in calls)

    loop.run(main())
