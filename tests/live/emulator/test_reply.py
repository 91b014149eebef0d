"""What answers look like on the wire, byte for byte, and in which order their parts come."""

from __future__ import annotations

import json
from typing import Any

from poise.core.request import RequestView, Sequence
from poise.live.emulator.ask import Limits, Reader
from poise.live.emulator.event_reply import Events
from poise.live.emulator.metrics import Metrics
from poise.live.emulator.pooling import EMBEDDINGS, Pooled, PooledReply
from poise.live.emulator.reply import Reply, StreamedReply, WholeReply
from poise.live.emulator.shape import FINGERPRINT

READER = Reader(Limits(("tiny",), 4096, 16, True, 0))
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3, "ignore_eos": True}


class Page:
    """An exchange that keeps what is written."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.parts: list[bytes] = []
        self.ended = False

    def start(self, status: int, headers: list[tuple[bytes, bytes]], length: int | None = None) -> None:
        self.status, self.headers = status, headers

    def write(self, data: bytes) -> None:
        self.parts.append(data)

    def end(self) -> None:
        self.ended = True

    def answer(self, status: int, body: bytes, content_type: bytes = b"application/json") -> None:
        self.start(status, [(b"content-type", content_type)], len(body))
        self.write(body)
        self.end()


def answered(kind: type[Reply], ask: Any, *, cached: int | None = None) -> tuple[Page, Metrics]:
    """Let an answer be made, a token each 10 ms."""
    page, metrics = Page(), Metrics("tiny")
    sequence = Sequence(RequestView(0, 0, len(ask.prompt)), ask.speech.tokens)
    sequence.cached = cached or 0
    name = {"chat": "chatcmpl-0", "completion": "cmpl-0", "response": "resp_0"}.get(ask.kind, "chatcmpl-0")
    reply = kind(ask, page, sequence, metrics, name, 1700000000, cached is not None)
    reply.begin()
    reply.admitted(5 * 10**9)
    for place in range(ask.speech.tokens):
        reply.token((place + 2) * 10**10)
    reply.done((ask.speech.tokens + 1) * 10**10)
    assert page.ended
    return page, metrics


def words(ask: Any) -> list[str]:
    return [ask.speech.word(place) for place in range(ask.speech.tokens)]


def test_a_streamed_chat() -> None:
    """Role, one event a token of which the last says why it ended, usage without choices, and the end."""
    ask = READER.chat({**CHAT, "stream": True, "stream_options": {"include_usage": True}})[0]
    page, _ = answered(StreamedReply, ask)
    assert (page.status, page.headers) == (200, [(b"content-type", b"text/event-stream; charset=utf-8")])
    one, two, three = words(ask)
    head = '{"id":"chatcmpl-0","object":"chat.completion.chunk","created":1700000000,"model":"tiny","choices":['
    assert [part.decode() for part in page.parts] == [
        f'data: {head}{{"index":0,"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}],'
        f'"prompt_token_ids":null,"prompt_text":null}}\n\n',
        f'data: {head}{{"index":0,"delta":{{"content":"{one}"}},"logprobs":null,"finish_reason":null,'
        f'"token_ids":null}}]}}\n\n',
        f'data: {head}{{"index":0,"delta":{{"content":"{two}"}},"logprobs":null,"finish_reason":null,'
        f'"token_ids":null}}]}}\n\n',
        f'data: {head}{{"index":0,"delta":{{"content":"{three}"}},"logprobs":null,"finish_reason":"length",'
        f'"stop_reason":null,"token_ids":null}}]}}\n\n',
        f'data: {head}],"usage":{{"prompt_tokens":11,"total_tokens":14,"completion_tokens":3}},'
        f'"system_fingerprint":"{FINGERPRINT}"}}\n\n',
        "data: [DONE]\n\n",
    ]


def test_a_streamed_completion() -> None:
    ask = READER.completion({"prompt": "Hi", "max_tokens": 2, "ignore_eos": True, "stream": True, "echo": True})[0]
    page, _ = answered(StreamedReply, ask)
    head = '{"id":"cmpl-0","object":"text_completion","created":1700000000,"model":"tiny","choices":[{"index":0,"text":'
    tail = '"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}\n\n'
    last = tail.replace("]}", f'],"system_fingerprint":"{FINGERPRINT}"}}')
    one, two = words(ask)
    assert [part.decode() for part in page.parts] == [
        f'data: {head}"Hi","logprobs":null,"finish_reason":null,{tail}',
        f'data: {head}"{one}","logprobs":null,"finish_reason":null,{tail}',
        f'data: {head}"{two}","logprobs":null,"finish_reason":"length",{last}',
        "data: [DONE]\n\n",
    ]


def test_usage_in_each_chunk() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    page, _ = answered(StreamedReply, READER.chat({**CHAT, "stream": True, "stream_options": options})[0])
    parsed = [json.loads(part[6:])["usage"]["completion_tokens"] for part in page.parts[:-1]]
    assert parsed == [0, 1, 2, 3, 3]


def test_a_whole_chat() -> None:
    ask = READER.chat({**CHAT, "messages": [{"role": "user", "content": "Hi" * 40}]})[0]
    page, _ = answered(WholeReply, ask, cached=16)
    result = json.loads(page.parts[0])
    assert (result["id"], result["created"], result["model"]) == ("chatcmpl-0", 1700000000, "tiny")
    assert result["choices"][0]["message"]["content"] == "".join(words(ask))
    assert (result["usage"]["prompt_tokens"], result["usage"]["total_tokens"]) == (30, 33)
    assert result["usage"]["prompt_tokens_details"]["cached_tokens"] == 16
    assert result["usage"]["prompt_tokens_details"]["created_cache_tokens"] == 0, "no block of its own is whole"


def test_a_whole_completion() -> None:
    ask = READER.completion({"prompt": "Hi", "max_tokens": 3, "ignore_eos": True})[0]
    page, _ = answered(WholeReply, ask)
    result = json.loads(page.parts[0])
    assert (result["object"], result["choices"][0]["text"]) == ("text_completion", "".join(words(ask)))
    assert result["usage"] == {
        "prompt_tokens": 2, "total_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }  # fmt: skip


def test_a_streamed_response() -> None:
    ask = READER.response({"input": "Hi", "max_output_tokens": 50, "stream": True}, 2)[0]
    page, _ = answered(Events, ask, cached=4)
    parsed = [json.loads(part.partition(b"\ndata: ")[2]) for part in page.parts]
    assert [each["type"] for each in parsed] == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
        "response.output_text.delta", "response.output_text.delta", "response.output_text.done",
        "response.content_part.done", "response.output_item.done", "response.completed",
    ]  # fmt: skip
    assert [each["sequence_number"] for each in parsed] == list(range(10))
    assert all(
        part.startswith(f"event: {each['type']}\n".encode()) for part, each in zip(page.parts, parsed, strict=True)
    )
    usage = parsed[-1]["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (11, 2, 13)
    assert usage["input_tokens_details"]["cached_tokens"] == 4


def test_a_fault_strikes_where_it_shall() -> None:
    for after in range(4):
        ask = READER.chat({**CHAT, "stream": True})[0]
        page, struck = Page(), []
        reply = StreamedReply(ask, page, Sequence(RequestView(0, 0, 8), 3), Metrics("tiny"), "chatcmpl-0", 0, False)
        reply.breaks_after = after
        reply.strike = lambda struck=struck, page=page: bool(struck.append(len(page.parts)))
        reply.begin()
        for _ in range(3):
            reply.token(0)
        reply.done(0)
        assert struck == [after + (after > 0)], "once, after the role and so many tokens"
        assert len(page.parts) == struck[0] and not page.ended


def test_a_stream_goes_on_behind_nonsense() -> None:
    ask = READER.chat({**CHAT, "stream": True})[0]
    page = Page()
    reply = StreamedReply(ask, page, Sequence(RequestView(0, 0, 8), 3), Metrics("tiny"), "chatcmpl-0", 0, False)
    reply.breaks_after = 1
    reply.strike = lambda: page.write(b"nonsense") is None
    reply.begin()
    for _ in range(3):
        reply.token(0)
    reply.done(0)
    assert [b"nonsense" in part for part in page.parts] == [False, False, True, False, False, False] and page.ended


def test_embeddings() -> None:
    page, metrics = Page(), Metrics("tiny")
    body = {"input": ["one", "two", "one"]}
    asks = READER.pooling(body, EMBEDDINGS.prompts(body))
    pooled = Pooled(EMBEDDINGS, asks, body, page, 0)
    for ask in asks:
        sequence = Sequence(RequestView(0, 0, len(ask.prompt)), 1)
        reply = PooledReply(ask, page, sequence, metrics, "embd-0", 0, False)
        reply.pooled = pooled
        assert not page.ended
        reply.token(0)
        reply.done(0)
    one, two, again = (each["embedding"] for each in json.loads(page.parts[0])["data"])
    assert one == again != two
    assert abs(sum(value * value for value in one) - 1) < 1e-9
