"""Answers of a form: JSON that is valid for its schema, and calls of tools; of as many tokens as any answer has."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from poise.live.emulator.ask import Limits, Reader
from poise.live.emulator.engine_request import EngineRequest
from poise.live.emulator.event_reply import MessageEvents, MessageReply
from poise.live.emulator.json_text import json_text
from poise.live.emulator.refuse import Refused
from poise.live.emulator.reply import StreamedReply, WholeReply
from poise.live.emulator.tokens import encode
from tests.live.emulator.test_reply import answered

READER = Reader(Limits(("tiny",), 4096, 16, True, 0))
MESSAGES = [{"role": "user", "content": "Hi"}]


class Leaf(BaseModel):
    name: str
    size: Annotated[int, Field(ge=3, le=9)]
    share: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    kind: Literal["b", "a"]


class Tree(BaseModel):
    """What schemas of programs have: objects in lists, references to itself, choices, bounds."""

    id: Annotated[str, Field(max_length=3)]
    leaves: Annotated[list[Leaf], Field(min_length=2)]
    left: Tree | None = None
    either: int | str
    even: Annotated[int, Field(multiple_of=2, gt=6)]
    note: Annotated[str, Field(min_length=40)]
    done: bool
    nothing: None


TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema}}
    for name, schema in (("plant", Tree.model_json_schema()), ("fell", {"type": "object", "properties": {}}))
]


def chat(output: int = 0, **given: Any) -> EngineRequest:
    return READER.chat({"messages": MESSAGES, "max_tokens": 600, **given}, output)[0]


def schema_of(schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}


@pytest.mark.parametrize("seed", range(8))
def test_an_answer_is_valid_for_its_schema(seed: int) -> None:
    ask = chat(seed=seed, **schema_of(Tree.model_json_schema()))
    Tree.model_validate_json(ask.speech.text(), strict=True)
    assert ask.finish == "stop"
    assert len(ask.speech.ids()) == ask.speech.tokens == len(encode(ask.speech.text()))


@given(
    st.recursive(
        st.sampled_from([{"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": "null"}, {}]),
        lambda inner: (
            inner.map(lambda each: {"type": "array", "items": each})
            | st.dictionaries(st.text(max_size=3), inner, max_size=3).map(
                lambda each: {"type": "object", "properties": each, "required": [*each]}
            )
            | st.lists(inner, min_size=1, max_size=3).map(lambda each: {"anyOf": each})
        ),
    ),
    st.integers(1, 600),
)
def test_any_schema_makes_json_of_as_many_tokens_as_are_dictated(schema: dict[str, Any], tokens: int) -> None:
    text = json_text(schema)
    ask = chat(tokens, **schema_of(schema))
    least = len(text.before) + len(text.after)
    assert ask.speech.tokens == len(encode(ask.speech.text()))
    if 4 * tokens >= least:
        assert ask.speech.tokens == tokens and ask.speech.stops
        json.loads(ask.speech.text())
    else:
        assert ask.finish == "length" and ask.speech.tokens == tokens


def test_a_limit_cuts_json_as_it_cuts_words() -> None:
    ask = chat(**schema_of(Tree.model_json_schema()) | {"max_tokens": 5})
    assert (ask.finish, ask.speech.tokens, len(ask.speech.text())) == ("length", 5, 20)


def test_json_without_a_schema_is_an_object() -> None:
    ask = chat(response_format={"type": "json_object"})
    assert isinstance(json.loads(ask.speech.text()), dict)
    assert chat(response_format={"type": "text"}).speech.text() == chat().speech.text()
    assert json.loads(
        READER.completion({"prompt": "x", "max_tokens": 99, **schema_of({"type": "array"})})[0].speech.text()
    )


def test_equal_requests_have_equal_answers() -> None:
    one, same, other = (chat(seed=seed, tools=TOOLS, tool_choice="required").speech.text() for seed in (1, 1, 2))
    assert one == same != other


# Calls ---------------------------------------------------------------------------------------------------------------


def call_of(message: Any) -> dict[str, Any]:
    (call,) = message["tool_calls"]
    assert call["type"] == "function" and call["id"]
    return dict(call["function"])


@pytest.mark.parametrize("seed", range(6))
def test_a_required_tool_is_called_with_arguments_of_its_schema(seed: int) -> None:
    ask = chat(seed=seed, tools=TOOLS, tool_choice="required")
    page, _ = answered(WholeReply, ask)
    choice = json.loads(page.parts[0])["choices"][0]
    function = call_of(choice["message"])
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
    if function["name"] == "plant":
        Tree.model_validate_json(function["arguments"], strict=True)
    else:
        assert function["name"] == "fell" and json.loads(function["arguments"]) == {}


def test_a_named_tool_is_called_and_ends_the_turn() -> None:
    named = {"type": "function", "function": {"name": "fell"}}
    page, _ = answered(WholeReply, chat(tools=TOOLS, tool_choice=named))
    choice = json.loads(page.parts[0])["choices"][0]
    assert call_of(choice["message"])["name"] == "fell"
    assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", ""), "as vLLM says it"


def test_all_tools_are_chosen_and_half_of_the_answers_call_none() -> None:
    asks = [chat(seed=seed, tools=TOOLS) for seed in range(300)]
    names = [ask.called.name if ask.called else "" for ask in asks]
    assert all(names.count(name) > 40 for name in ("plant", "fell")) and 100 < names.count("") < 200
    assert all(ask.call is None for ask in (chat(seed=seed, tools=TOOLS, tool_choice="none") for seed in range(9)))


@pytest.mark.parametrize("tokens", [0, 80, 300])
def test_a_streamed_call_is_the_whole_one_in_pieces(tokens: int) -> None:
    """Its name comes first, then its arguments as they are made, then why it ended."""
    given = {"tools": TOOLS[:1], "tool_choice": "required", "stream": True, "stream_options": {"include_usage": True}}
    ask = chat(tokens, **given)
    page, _ = answered(StreamedReply, ask)
    chunks = [json.loads(part[6:]) for part in page.parts[:-1]]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    calls = [chunk["choices"][0]["delta"]["tool_calls"][0] for chunk in chunks[1:-2]]
    assert calls[0] == {
        "id": ask.call.id if ask.call else "",
        "type": "function",
        "index": 0,
        "function": {"name": "plant"},
    }
    assert all(call.keys() == {"index", "function"} for call in calls[1:])
    arguments = "".join(call["function"]["arguments"] for call in calls[1:])
    assert (chunks[-2]["choices"][0]["delta"], chunks[-2]["choices"][0]["finish_reason"]) == ({}, ask.finish)
    assert chunks[-1]["usage"]["completion_tokens"] == ask.speech.tokens
    if ask.called:
        Tree.model_validate_json(arguments, strict=True)
        whole, _ = answered(WholeReply, ask)
        assert call_of(json.loads(whole.parts[0])["choices"][0]["message"])["arguments"] == arguments
    else:
        assert ask.finish == "length" and tokens == 80


def test_a_call_that_the_limit_cuts_is_a_text() -> None:
    page, _ = answered(WholeReply, chat(tools=TOOLS, tool_choice="required", max_tokens=3))
    choice = json.loads(page.parts[0])["choices"][0]
    assert choice["finish_reason"] == "length" and choice["message"]["content"] == "<tool_call>\n"
    assert "tool_calls" not in choice["message"]


def test_calls_in_messages_are_blocks() -> None:
    tools = [{"name": "plant", "input_schema": Tree.model_json_schema()}]
    body = {"model": "tiny", "max_tokens": 600, "messages": MESSAGES, "tools": tools, "tool_choice": {"type": "any"}}
    ask = READER.message(body)[0]
    page, _ = answered(MessageReply, ask)
    whole = json.loads(page.parts[0])
    assert whole["stop_reason"] == "tool_use" and [block["type"] for block in whole["content"]] == ["tool_use"]
    Tree.model_validate(whole["content"][0]["input"])
    page, _ = answered(MessageEvents, ask)
    events = [json.loads(part.partition(b"\ndata: ")[2]) for part in page.parts]
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    pieces = [event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta"]
    assert json.loads("".join(pieces)) == whole["content"][0]["input"]
    assert events[-2]["usage"]["output_tokens"] == ask.speech.tokens == whole["usage"]["output_tokens"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"tools": "x"}, "Input should be a valid list"),
        ({"tools": [{}]}, "tools.0.function.name"),
        ({"tools": TOOLS, "tool_choice": "other"}, "does not match any of the specified `tools`"),
        ({"tool_choice": "auto"}, "`tools` must be set"),
        ({"response_format": {"type": "xml"}}, "Input should be 'text', 'json_object' or 'json_schema'"),
        (schema_of({"type": "array", "minItems": "many"}), "the schema cannot be followed"),
    ],
)
def test_what_is_refused(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(Refused, match=expected.replace("(", r"\(")):
        chat(**given)
