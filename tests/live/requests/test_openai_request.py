"""Reading OpenAI bodies: every shape, what stands for the prompt, and what is refused."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.live.requests.openai_request import (
    read_chat,
    read_completion,
    read_embeddings,
    read_responses,
)
from poise.live.requests.parsed_request import BadRequest, ParsedRequest
from poise.live.requests.paths import READERS

HELLO = [{"role": "user", "content": "hello"}]


def _request(reader: Any, **body: Any) -> ParsedRequest:
    request = reader(json.dumps({"model": "m", **body}).encode())
    assert isinstance(request, ParsedRequest), request
    return request


def _text(reader: Any, **body: Any) -> bytes:
    return _request(reader, **body).text


def test_a_chat_body_says_what_a_decision_needs() -> None:
    request = _request(
        read_chat,
        messages=HELLO,
        stream=True,
        stream_options={"include_usage": True, "continuous_usage_stats": True},
        max_tokens=7,
        n=2,
        priority=-3,
        user="u",
        prompt_cache_key="s",
        cache_salt="salt",
        temperature=0.5,
        some_field_of_tomorrow={"a": [1, {}]},
    )
    assert request == ParsedRequest(
        "chat", "m", b"user\x1fhello\x1e", True, True, 7, 2, -3, "u", "s", "salt", "", False, 0, 0
    )


def test_defaults_and_nulls_mean_the_same() -> None:
    given_null = dict.fromkeys(
        (
            "stream",
            "stream_options",
            "max_tokens",
            "max_completion_tokens",
            "n",
            "priority",
            "user",
            "tools",
            "cache_salt",
        )
    )
    assert _request(read_chat, messages=HELLO, **given_null) == _request(read_chat, messages=HELLO)
    assert not _request(read_chat, messages=HELLO).stream


def test_the_newer_limit_wins() -> None:
    assert _request(read_chat, messages=HELLO, max_tokens=5, max_completion_tokens=9).max_tokens == 9
    assert _request(read_chat, messages=HELLO, max_completion_tokens=0, max_tokens=5).max_tokens == 0
    assert _request(read_responses, input="x", max_output_tokens=4).max_tokens == 4
    assert _request(read_completion, prompt="x", max_tokens=3).max_tokens == 3


def test_tools_come_first_and_calls_after_their_message() -> None:
    call = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    messages = [*HELLO, {"role": "assistant", "content": None, "tool_calls": call}, {"role": "tool", "content": "4"}]
    text = _text(read_chat, messages=messages, tools=[{"type": "function"}])
    assert text == (
        b'[{"type": "function"}]\x1euser\x1fhello\x1eassistant\x1f\x1f'
        + json.dumps(call).encode()
        + b"\x1etool\x1f4\x1e"
    )


def test_parts_of_text_are_read_and_others_are_hashed() -> None:
    def picture(url: str) -> ParsedRequest:
        parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url}}]
        return _request(read_chat, messages=[{"role": "user", "content": parts}])

    one, same, other = picture("data:" + "a" * 9000), picture("data:" + "a" * 9000), picture("data:" + "b" * 9000)
    assert one.text == same.text != other.text
    assert one.media == 1 and len(one.text) < 60 and one.text.startswith(b"user\x1flook\x1f")


def test_prompts_of_text_and_token_ids() -> None:
    assert _text(read_completion, prompt="hé") == "hé".encode()
    assert _request(read_completion).text == b""
    several = _request(read_completion, prompt=["one", "twoé", "three"])
    assert (several.text, several.more, several.token_ids) == (b"one", 10, False)
    tokens = _request(read_completion, prompt=[1, 70_000, 3])
    assert (tokens.text, tokens.token_ids) == (array("I", [1, 70_000, 3]).tobytes(), True)
    assert tokens.prompt_tokens(bytes_per_token=2.5) == 3
    lists = _request(read_embeddings, input=[[1, 2], [3, 4, 5]])
    assert (lists.text, lists.more, lists.prompt_tokens()) == (array("I", [1, 2]).tobytes(), 12, 5)


def test_the_guess_of_tokens() -> None:
    assert _request(read_completion, prompt="x" * 400).prompt_tokens() == 100
    assert _request(read_completion, prompt="x" * 400).prompt_tokens(bytes_per_token=3.2) == 125
    assert _request(read_completion, prompt="").prompt_tokens() == 1


def test_responses_read_instructions_items_and_what_they_go_on_from() -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "name": "f", "arguments": "{}"},
        {"type": "message", "role": "assistant", "content": "yes"},
    ]
    request = _request(read_responses, input=items, instructions="be brief", previous_response_id="resp_1")
    assert request.text == (
        b"be brief\x1euser\x1fhi\x1f\x1e" + json.dumps(items[1]).encode() + b"\x1eassistant\x1fyes\x1e"
    )
    assert request.previous == "resp_1"
    assert _text(read_responses, input="hi") == b"user\x1fhi\x1e"


def test_embeddings_take_messages_as_vllm_does() -> None:
    assert _text(read_embeddings, messages=HELLO) == _text(read_chat, messages=HELLO)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), st.text()), min_size=1), st.integers(1, 9))
def test_the_next_turn_begins_with_this_one(turns: list[tuple[str, str]], keep: int) -> None:
    messages = [{"role": role, "content": text} for role, text in turns]
    whole = _text(read_chat, messages=messages)
    assert whole.startswith(_text(read_chat, messages=messages[:keep]))


@pytest.mark.parametrize(
    ("path", "body", "param", "expected"),
    [
        (b"/v1/chat/completions", b'{"messages": []}', "model", "model is missing"),
        (b"/v1/chat/completions", b'{"model": "m"}', "messages", "messages is missing"),
        (b"/v1/chat/completions", b'{"model": 3, "messages": []}', "model", "Expected `str`, got `int`"),
        (b"/v1/chat/completions", b'{"model": "m", "messages": [{"role": 1}]}', "messages[0].role", "Expected `str`"),
        (b"/v1/chat/completions", b'{"model": "m", "messages": [{}]}', "messages[0].role", "role is missing"),
        (b"/v1/chat/completions", b'{"model": "m", "messages": [], "stream": "yes"}', "stream", "got `str`"),
        (b"/v1/chat/completions", b'{"model": "m", "messages": [], "max_tokens": -1}', "max_tokens", ">= 0"),
        (b"/v1/chat/completions", b"[]", None, "send one JSON object"),
        (b"/v1/chat/completions", b"", None, "is not valid JSON"),
        (b"/v1/chat/completions", b'{"model": "m"', None, "is not valid JSON"),
        (b"/v1/chat/completions", b'{"model": "\xff", "messages": []}', None, "is not valid JSON"),
        (b"/v1/chat/completions", b'{"model": "m", "messages": [], "x": NaN}', None, "is not valid JSON"),
        (b"/v1/chat/completions", b'{"model": "m", "x": ' + b"[" * 100_000, None, "nested too deeply"),
        (b"/v1/completions", b'{"model": "m", "prompt": [1, -1]}', "prompt[1]", ">= 0"),
        (b"/v1/completions", b'{"model": "m", "prompt": {"a": 1}}', "prompt", "got `object`"),
        (b"/v1/embeddings", b'{"model": "m"}', "input", "`input` is missing"),
        (b"/v1/responses", b'{"model": "m", "input": [{"role": 4}]}', "input[...].role", "Expected `str"),
        (b"/v1/responses", b'{"model": "m", "input": [4]}', "input[...]", "Expected `object`"),
        (
            b"/v1/chat/completions",
            b'{"model": "m", "messages": [{"role": "u", "content": [3]}]}',
            "content[...]",
            "got `int`",
        ),
        (
            b"/v1/chat/completions",
            b'{"model": "m", "messages": [{"role": "u", "content": [{"text": 3}]}]}',
            "content[...].text",
            "got `int`",
        ),
        (b"/v1/chat/completions", b'{"model": "m", "messages": [], "tools": ["\xff"]}', None, "is not valid JSON"),
    ],
)
def test_what_is_refused_says_where_and_why(path: bytes, body: bytes, param: str | None, expected: str) -> None:
    bad = READERS[path](body)
    assert isinstance(bad, BadRequest)
    assert (bad.status, bad.type, bad.param) == (400, "invalid_request_error", param)
    assert expected in bad.message
    error = json.loads(bad.json())["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["message"] == bad.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["messages", "prompt", "input", "stream", "tools", "max_tokens", "stream_options", "n", "instructions"]
)


@given(st.dictionaries(NAMES, JSON), st.sampled_from(sorted(READERS)))
def test_any_json_is_read_or_refused(body: dict[str, Any], path: bytes) -> None:
    assert isinstance(READERS[path](json.dumps({"model": "m", **body}).encode()), ParsedRequest | BadRequest)


RICH = json.dumps(
    {
        "model": "m",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "é"}, {"type": "image_url", "image_url": {}}]}
        ],
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}, {"type": "function_call"}],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "stream_options": {"include_usage": True},
        "prompt": [[1, 2], [3]],
    },
    ensure_ascii=False,
).encode()


@given(st.integers(0, len(RICH)), st.integers(0, 6), st.binary(max_size=3), st.sampled_from(sorted(READERS)))
def test_any_damage_is_read_or_refused(start: int, length: int, instead: bytes, path: bytes) -> None:
    damaged = RICH[:start] + instead + RICH[start + length :]
    assert isinstance(READERS[path](damaged), ParsedRequest | BadRequest)


PLAIN = st.none() | st.integers() | st.text()
PARTS = st.lists(PLAIN | st.dictionaries(st.sampled_from(["text", "type", "image_url"]), PLAIN))


@given(st.lists(st.fixed_dictionaries({"role": st.text(), "content": PARTS | PLAIN})), st.sampled_from(sorted(READERS)))
def test_any_content_is_read_or_refused(messages: list[Any], path: bytes) -> None:
    body = {"model": "m", "messages": messages, "input": messages}
    assert isinstance(READERS[path](json.dumps(body).encode()), ParsedRequest | BadRequest)


@given(st.binary(), st.sampled_from(sorted(READERS)))
def test_any_bytes_are_read_or_refused(body: bytes, path: bytes) -> None:
    assert isinstance(READERS[path](body), ParsedRequest | BadRequest)
