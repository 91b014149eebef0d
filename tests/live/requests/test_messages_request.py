"""Reading bodies of Anthropic's Messages API: the prompt that stands for one, and the chat that engines make of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.live.requests.chat_template import ChatTemplate
from poise.live.requests.messages_chat import chat_of
from poise.live.requests.messages_request import BILLING, read_count, read_messages
from poise.live.requests.openai_request import read_chat
from poise.live.requests.parsed_request import BadRequest, ParsedRequest
from poise.live.requests.token_prefix import Exact, TokenPrefix
from tests.live.requests.tokenizers_made import tokenizer

HELLO = [{"role": "user", "content": "hello"}]
CALL = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "42" * 50}]}


def request(**body: Any) -> ParsedRequest:
    found = read_messages(json.dumps({"model": "m", "max_tokens": 9, **body}).encode())
    assert isinstance(found, ParsedRequest), found
    return found


def test_a_body_says_what_a_decision_needs() -> None:
    found = request(
        messages=HELLO, system="be brief", tools=[{"name": "f"}], stream=True, metadata={"user_id": "u"}, top_k=3
    )
    assert found == ParsedRequest(
        "messages", "m", b'[{"name": "f"}]\x1esystem\x1fbe brief\x1euser\x1fhello\x1e', True, False, 9, 1, 0, "u", "",
        "", "", False, 0, 0,
    )  # fmt: skip


def test_the_prompt_is_the_one_of_the_same_chat() -> None:
    chat = read_chat(json.dumps({"model": "m", "messages": [{"role": "system", "content": "s"}, *HELLO]}).encode())
    assert isinstance(chat, ParsedRequest)
    assert request(messages=HELLO, system="s").text == chat.text


def test_one_block_of_text_is_as_good_as_the_text_and_marks_of_the_cache_are_no_part_of_it() -> None:
    block = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}
    assert request(messages=[{"role": "user", "content": [block]}]).text == request(messages=HELLO).text


def test_what_differs_in_each_request_is_left_out_as_engines_do() -> None:
    def system(bill: str) -> bytes:
        blocks = [{"type": "text", "text": f"{BILLING}: {bill}"}, {"type": "text", "text": "be brief"}]
        return request(messages=HELLO, system=blocks).text

    assert system("a1") == system("b2") and b"be brief" in system("a1")


def test_calls_and_results_are_read_and_pictures_hashed() -> None:
    turns = [*HELLO, {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT]}]
    found = request(messages=turns)
    assert found.text == (
        b'user\x1fhello\x1eassistant\x1fc\x1ff\x1f{"a": 1}\x1euser\x1fc\x1f' + b"42" * 50 + b"\x1e"
    ), "the work of a result is that of its text"
    picture = {"type": "image", "source": {"type": "base64", "data": "a" * 9000}}
    seen = request(messages=[{"role": "user", "content": [picture]}])
    assert seen.media == 1 and len(seen.text) < 40


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.lists(st.text(), max_size=3)), min_size=1),
    st.integers(1, 9),
)
def test_the_next_turn_begins_with_this_one(turns: list[tuple[str, list[str]]], keep: int) -> None:
    messages = [{"role": role, "content": [{"type": "text", "text": text} for text in texts]} for role, texts in turns]
    whole = request(messages=messages, system="s").text
    assert whole.startswith(request(messages=messages[:keep], system="s").text)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": HELLO}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": [{"content": "x"}]}, "messages[0].role"),
        ({"model": "m", "messages": [{"role": "user", "content": [5]}]}, "content[...]"),
        ({"model": "m", "messages": HELLO, "max_tokens": -1}, "max_tokens"),
    ],
)
def test_what_is_wrong_is_named(body: dict[str, Any], param: str) -> None:
    found = read_messages(json.dumps(body).encode())
    assert isinstance(found, BadRequest) and found.param == param
    error = json.loads(found.json("/v1/messages"))
    assert error["type"] == "error" and error["error"]["type"] == "invalid_request_error"
    assert error["error"]["message"].startswith(param)


def test_counting_tokens_is_no_work() -> None:
    found = read_count(json.dumps({"model": "m", "messages": HELLO * 99}).encode())
    assert isinstance(found, ParsedRequest) and (found.text, found.max_tokens) == (b"", 1)
    assert found.prompt_tokens() == 1


def test_the_chat_that_engines_make() -> None:
    turns = [*HELLO, {"role": "assistant", "content": [{"type": "text", "text": "so"}, CALL]},
             {"role": "user", "content": [RESULT, {"type": "text", "text": "go on"}]}]  # fmt: skip
    chat = chat_of(
        {"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "s"}], "messages": turns,
         "tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "tool", "name": "f"}}
    )  # fmt: skip
    function = {"name": "f", "arguments": '{"a": 1}'}
    assert chat["messages"] == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "so", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "42" * 50},
        {"role": "user", "content": "go on"},
    ]
    assert chat["tools"][0]["function"] == {"name": "f", "description": None, "parameters": {"type": "object"}}
    assert chat["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert chat_of({"messages": HELLO, "tool_choice": {"type": "any"}})["tool_choice"] == "required"


def test_exact_identities_are_those_of_the_chat() -> None:
    template = "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}{% endfor %}"
    exact = Exact(TokenPrefix(tokenizer("bytes")), ChatTemplate({"default": template}, {}), 4)
    text = "one two three four five six seven " * 4
    message = {
        "model": "m",
        "max_tokens": 3,
        "messages": [{"role": "user", "content": [{"type": "text", "text": text}]}],
    }
    chat = {"model": "m", "messages": [{"role": "user", "content": text}]}
    found = exact.identity("messages", json.dumps(message).encode())
    assert found is not None and found.ids and found == exact.identity("chat", json.dumps(chat).encode())
    assert exact.identity("messages", b'{"messages": [5]}') is None
