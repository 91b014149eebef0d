"""Bodies are read, and refused, as vLLM does it."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest

from poise.live.emulator.ask import LIKELY, Limits, Reader
from poise.live.emulator.engine_request import EngineRequest
from poise.live.emulator.pooling import EMBEDDINGS
from poise.live.emulator.refuse import Refused, read_json
from poise.live.emulator.tokens import complete, converse

READER = Reader(Limits(("tiny", "alias"), 4096, 16, True, 0))
MESSAGES = [{"role": "user", "content": "Hello there"}]


def chat(**given: Any) -> EngineRequest:
    return READER.chat({"model": "tiny", "messages": MESSAGES, **given})[0]


def embeddings(inputs: list[Any]) -> list[EngineRequest]:
    body = {"input": inputs}
    return READER.pooling(body, EMBEDDINGS.prompts(body))


def completion(**given: Any) -> EngineRequest:
    return READER.completion({"model": "tiny", "prompt": "Hello there", **given})[0]


def refused(ask: Any, **given: Any) -> dict[str, Any]:
    with pytest.raises(Refused) as caught:
        ask(**given)
    error: dict[str, Any] = json.loads(caught.value.body())["error"]
    assert error["code"] == caught.value.status
    return error


def test_a_chat() -> None:
    ask = chat(stream=True, stream_options={"include_usage": True}, max_tokens=9, ignore_eos=True, priority=3)
    assert (ask.kind, ask.model, ask.stream, ask.usage, ask.continuous) == ("chat", "tiny", True, True, False)
    assert (ask.speech.tokens, ask.finish, ask.priority) == (9, "length", 3)
    assert ask.prompt == converse(MESSAGES)
    assert len(ask.ids) == (len(ask.prompt) + 9 - 1) // 16


def test_names_and_defaults() -> None:
    assert READER.chat({"messages": MESSAGES})[0].model == "tiny"
    assert READER.chat({"model": "alias", "messages": MESSAGES})[0].model == "alias"
    assert completion(ignore_eos=True).speech.tokens == 16, "the default of completions"
    assert chat(max_completion_tokens=5, max_tokens=7, ignore_eos=True).speech.tokens == 5
    assert chat(ignore_eos=True).speech.tokens == 4096 - len(converse(MESSAGES)), "up to the model's length"


def test_prompts_of_text_and_of_tokens() -> None:
    assert completion().prompt == complete("Hello there")
    assert READER.completion({"prompt": [5, 6, 7]})[0].prompt == array("Q", [5, 6, 7])
    assert READER.completion({"prompt": ["one"]})[0].prompt == complete("one")
    assert READER.completion({"prompt": [[5, 6]]})[0].prompt == array("Q", [5, 6])


def test_equal_requests_have_equal_answers() -> None:
    texts = {chat(max_tokens=40, seed=seed).speech.text() for seed in (None, 0, 1, -1, 2)}
    assert len(texts) == 4, "no seed is seed 0, another seed is another answer"
    assert chat(max_tokens=40).speech.text() == chat(max_tokens=40, temperature=0.5).speech.text()
    other = Reader(Limits(("tiny",), 4096, 16, True, 1))
    assert other.chat({"messages": MESSAGES, "max_tokens": 40})[0].speech.text() not in texts


def test_lengths_are_drawn_up_to_the_limit() -> None:
    """Uniform over 1 to min(max_tokens, LIKELY): about half are in the lower half, and few are at the limit."""
    drawn = [completion(prompt=f"prompt {number}", max_tokens=100) for number in range(400)]
    lengths = [ask.speech.tokens for ask in drawn]
    assert min(lengths) >= 1 and max(lengths) == 100
    assert 150 < sum(length <= 50 for length in lengths) < 250
    assert all((ask.finish == "length") == (ask.speech.tokens == 100) for ask in drawn)
    assert max(completion(prompt=f"{number}", max_tokens=4000).speech.tokens for number in range(400)) <= LIKELY


def test_requested_lengths() -> None:
    assert completion(max_tokens=30, min_tokens=30).speech.tokens == 30
    assert all(completion(prompt=f"{n}", max_tokens=30, min_tokens=25).speech.tokens >= 25 for n in range(20))
    fixed = READER.chat({"messages": MESSAGES, "max_tokens": 50}, 20)[0]
    assert (fixed.speech.tokens, fixed.finish) == (20, "stop")
    capped = READER.chat({"messages": MESSAGES, "max_tokens": 10}, 20)[0]
    assert (capped.speech.tokens, capped.finish) == (10, "length")


def test_a_salt_and_no_caching_change_the_blocks() -> None:
    long = "x" * 400
    assert completion(prompt=long, cache_salt="a").ids != completion(prompt=long).ids
    assert Reader(Limits(("tiny",), 4096, 16, False, 0)).completion({"prompt": long})[0].ids == ()


def test_unknown_fields_and_sampling_are_accepted() -> None:
    ask = chat(surprise={"a": [1]}, temperature=0, top_p=1, stop=["\n"], logit_bias={}, user="me", n=1)
    assert ask.speech.text() == chat().speech.text()


def test_unknown_model() -> None:
    error = refused(READER.chat, body={"model": "gpt", "messages": MESSAGES})
    assert error == {
        "message": "The model `gpt` does not exist. Valid aliases: tiny, alias.",
        "type": "NotFoundError",
        "param": "model",
        "code": 404,
    }


def test_too_long() -> None:
    error = refused(completion, prompt=[5] * 4097)
    assert error["message"] == (
        "This model's maximum context length is 4096 tokens. However, your prompt contains 4097 input tokens, which "
        "exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "
        "(parameter=input_tokens, value=4097)"
    )
    assert (error["type"], error["param"], error["code"]) == ("BadRequestError", "input_tokens", 400)
    assert (
        refused(completion, prompt=[5] * 4096)["param"] == refused(completion, max_tokens=4097)["param"] == "max_tokens"
    )
    assert completion(prompt=[5] * 4000, max_tokens=4096, ignore_eos=True).speech.tokens == 96, "what room there is"


def test_missing_messages() -> None:
    error = refused(READER.chat, body={"model": "tiny"})
    assert error["message"] == (
        "1 validation error:\n  {'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required', 'input': "
        "'<dict of 1 items>'}"
    )
    assert (error["type"], error["param"], error["code"]) == ("Bad Request", "body.messages", 400)


@pytest.mark.parametrize(
    ("given", "param", "expected"),
    [
        (
            {"temperature": -1},
            "temperature",
            "temperature must be non-negative, got -1.0. (parameter=temperature, value=-1.0)",
        ),
        ({"top_p": 0}, "top_p", "top_p must be in (0, 1], got 0.0. (parameter=top_p, value=0.0)"),
        ({"max_tokens": 0}, "max_tokens", "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"),
        ({"max_tokens": -5}, "max_tokens", "max_tokens must be at least 1, got -5. (parameter=max_tokens, value=-5)"),
        ({"n": 2, "temperature": 0}, None, "n must be 1 when using greedy sampling, got 2."),
        (
            {"max_tokens": 3, "min_tokens": 4},
            None,
            "min_tokens must be less than or equal to max_tokens=3, got 4.",
        ),
        (
            {"cache_salt": ""},
            "cache_salt",
            "Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)",
        ),
        (
            {"stream_options": {"include_usage": True}},
            "stream_options",
            "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
        ),
    ],
)
def test_values_that_vllm_refuses(given: dict[str, Any], param: str | None, expected: str) -> None:
    for ask in (chat, completion):
        error = refused(ask, **given)
        assert (error["message"], error["type"], error["param"], error["code"]) == (
            expected,
            "BadRequestError",
            param,
            400,
        )


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": "hot"},
        {"max_tokens": "many"},
        {"max_tokens": True},
        {"seed": 1.5},
        {"messages": "Hello"},
        {"messages": [{"content": "Hello"}]},
        {"messages": [{"role": "user", "content": 5}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"messages": ["Hello"]},
        {"prompt": None},
        {"prompt": []},
        {"prompt": ["one", "two"]},
        {"prompt": [-1]},
        {"prompt": 5},
    ],
)
def test_shapes_that_are_refused(given: dict[str, Any]) -> None:
    assert refused(completion if "prompt" in given else chat, **given)["code"] == 400


def test_bodies_that_are_no_json() -> None:
    error = refused(read_json, body=b'{"model": }')
    assert error["message"] == (
        "1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.10', 'msg': 'JSON decode error', "
        "'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}}"
    )
    assert (error["type"], error["param"], error["code"]) == ("Bad Request", "body.10", 400)
    for body in (b"", b"\xff\xfe", b"[" * 10_000, b"[1]", b'"text"', b"NaN"):
        assert refused(read_json, body=body)["code"] == 400


def test_a_response_and_embeddings() -> None:
    ask = READER.response({"input": "Hello there", "max_output_tokens": 7, "instructions": "Be brief."})[0]
    assert ask.prompt == converse([{"role": "system", "content": "Be brief."}, *MESSAGES])
    assert READER.response({"input": MESSAGES})[0].prompt == converse(MESSAGES)
    with pytest.raises(Refused):
        READER.response({"input": 5})
    inputs = embeddings(["one", "two"])
    assert [each.prompt for each in inputs] == [complete("one"), complete("two")]
    assert len(embeddings([1, 2, 3])) == 1
    with pytest.raises(Refused):
        embeddings([])
    assert READER.tokens({"prompt": "Hello"}) == complete("Hello")
    assert READER.tokens({"messages": MESSAGES}) == converse(MESSAGES)
    assert len(READER.tokens({"prompt": "Hello", "add_special_tokens": False})) == 2
    with pytest.raises(Refused):
        READER.tokens({})
