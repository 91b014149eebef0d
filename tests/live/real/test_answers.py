"""What comes back through the gateway is what the engine says: chunk by chunk, to any client of OpenAI's API."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from poise.live.traffic import words
from tests.live.real.answers import CHAT, chunks, text
from tests.live.real.engines import Pair
from tests.live.real.process import NAME, ask
from tests.live.real.served import Served

pytestmark = pytest.mark.slow


def test_a_stream_is_the_engines_own(pair: Pair, served: Served) -> None:
    """The same text, the same end and usage, here and there, piece by piece."""
    body = {**CHAT, "stream_options": {"include_usage": True}}
    direct, through = (chunks(url, body) for url in (pair.engines[0].url, served.url))
    for entry in (direct, through):  # a busy engine puts several tokens into one chunk, all of them at worst
        assert 3 <= len(entry) <= 1 + CHAT["max_tokens"] + 1, "role, tokens, usage"
    assert text(through) == text(direct)
    assert (through[0], through[-2]["choices"][0]["finish_reason"], through[-1]["usage"]["completion_tokens"]) == (
        direct[0], "length", CHAT["max_tokens"],
    )  # fmt: skip


def test_all_engines_say_the_same(pair: Pair, served: Served) -> None:
    """So it does not matter which one answers."""
    seen = []
    for url in (pair.engines[0].url, pair.engines[1].url, served.url):
        status, answer = ask(url, "POST", "/v1/chat/completions", CHAT)
        assert status == 200
        seen.append(json.loads(answer)["choices"][0]["message"]["content"])
    assert seen[0] and seen[0] == seen[1] == seen[2]


def test_unknown_fields_reach_the_engine(pair: Pair, served: Served) -> None:
    """Those of vLLM alone act; those of no server are passed over, as it does itself."""
    body = {**CHAT, "return_token_ids": True, "of_no_server": {"deep": [1]}, "vllm_xargs": {"mine": "1"}}
    status, answer = served.ask("POST", "/v1/chat/completions", body)
    choice = json.loads(answer)["choices"][0]
    assert status == 200 and len(choice["token_ids"]) == CHAT["max_tokens"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {**CHAT, "temperature": -1}),
        ("/v1/chat/completions", {**CHAT, "max_tokens": 5000}),
        ("/v1/completions", {"model": NAME, "prompt": words(2, 5000), "max_tokens": 4}),
    ],
    ids=["temperature", "max_tokens", "prompt"],
)
def test_the_engines_errors_come_through(pair: Pair, served: Served, path: str, body: dict[str, Any]) -> None:
    direct = pair.engines[0].ask("POST", path, body)
    assert direct[0] == 400
    assert served.ask("POST", path, body) == direct


def test_the_official_client(served: Served) -> None:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == [NAME]
        messages: Any = CHAT["messages"]
        body: dict[str, Any] = {"model": NAME, "messages": messages, "max_tokens": 20, "temperature": 0, "seed": 1}
        whole = client.chat.completions.create(**body)
        stream = list(client.chat.completions.create(**body, stream=True, stream_options={"include_usage": True}))
        answer = "".join(each.choices[0].delta.content or "" for each in stream if each.choices)
        assert answer == whole.choices[0].message.content
        assert stream[-1].usage is not None and whole.usage is not None
        assert stream[-1].usage.completion_tokens == whole.usage.completion_tokens
        done = client.completions.create(model=NAME, prompt=words(3, 40), max_tokens=9, extra_body={"ignore_eos": True})
        assert done.usage is not None and done.usage.completion_tokens == 9
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            client.completions.create(model="other", prompt="a")
        with pytest.raises(openai.BadRequestError, match="temperature"):
            client.completions.create(model=NAME, prompt="a", temperature=-1)
