"""Paths beside chats and completions, over real sockets: their shapes, their work, their mistakes."""

from __future__ import annotations

import io
import json
import wave
from typing import Any

import pytest

from poise.live.http import loop
from tests.live.emulator.clients import Line, an_engine, ask, events

TURN = {"role": "user", "content": "Hi"}
MESSAGE = {"model": "tiny", "max_tokens": 9, "messages": [TURN]}


async def posted(engine: Any, path: str, body: Any, **headers: str) -> Any:
    status, _, answer = await ask(engine, "POST", path, body, **headers)
    assert status == 200, answer
    return json.loads(answer)


def test_messages_are_computed_as_the_chat_that_they_are() -> None:
    async def main() -> None:
        async with an_engine(enable_prompt_tokens_details=True) as engine:
            chat = await posted(engine, "/v1/chat/completions", {"messages": [TURN], "max_tokens": 9})
            whole = await posted(engine, "/v1/messages", MESSAGE)
            (block,) = whole["content"]
            assert block == {"type": "text", "text": chat["choices"][0]["message"]["content"]}
            usage = whole["usage"]
            assert usage["output_tokens"] == chat["usage"]["completion_tokens"]
            read = usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
            assert usage["input_tokens"] + read == chat["usage"]["prompt_tokens"]
            counted = await posted(engine, "/v1/messages/count_tokens", {"model": "tiny", "messages": [TURN]})
            assert counted["input_tokens"] == chat["usage"]["prompt_tokens"]

    loop.run(main())


def test_a_rank_is_sorted_and_cut_and_names_its_documents() -> None:
    async def main() -> None:
        async with an_engine() as engine:
            body = {"query": "why", "documents": ["one", {"text": "two"}, "three"]}
            for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
                found = await posted(engine, path, body)
                scores = [row["relevance_score"] for row in found["results"]]
                assert scores == sorted(scores, reverse=True) and all(0 <= score <= 1 for score in scores)
                assert {row["index"]: row["document"]["text"] for row in found["results"]} == {
                    0: "one",
                    1: "two",
                    2: "three",
                }
            first = await posted(engine, "/rerank", {**body, "top_n": 1})
            assert first["results"] == found["results"][:1] and first["usage"] == found["usage"]
            scored = await posted(engine, "/score", {"text_1": "why", "text_2": ["one", "two", "three"]})
            assert [row["score"] for row in scored["data"]] == [
                row["relevance_score"] for row in sorted(found["results"], key=lambda row: int(row["index"]))
            ], "a score is of the pair alone"
            assert scored["usage"]["completion_tokens"] == 0 and scored["usage"]["prompt_tokens"] > 3

    loop.run(main())


def test_classes_and_pools() -> None:
    async def main() -> None:
        async with an_engine() as engine:
            found = await posted(engine, "/classify", {"input": ["one", "two"]})
            for row in found["data"]:
                assert sum(row["probs"]) == pytest.approx(1) and row["num_classes"] == len(row["probs"]) == 2
                assert row["label"] == f"LABEL_{row['probs'].index(max(row['probs']))}"
            pooled = await posted(engine, "/pooling", {"input": "one"})
            vectors = await posted(engine, "/v1/embeddings", {"input": "one"})
            assert pooled["data"][0]["data"] == vectors["data"][0]["embedding"]
            assert (await posted(engine, "/pooling", {"messages": [TURN]}))["data"]

    loop.run(main())


def form(sound: bytes, **fields: str) -> bytes:
    parts = [f'--b\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{fields[name]}\r\n' for name in fields]
    return (
        "".join((*parts, '--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n')).encode()
        + sound
        + b"\r\n--b--\r\n"
    )


async def heard(engine: Any, sound: bytes, **fields: str) -> tuple[int, dict[str, str], bytes]:
    line = await Line.to(engine)
    body = form(sound, **fields)
    line.writer.write(
        b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: e\r\ncontent-type: multipart/form-data; boundary=b\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(body), body)
    )
    try:
        return await line.answer()
    finally:
        await line.close()


def test_a_sound_is_heard_whole_and_streamed() -> None:
    sound = bytes(range(256)) * 250

    async def main() -> None:
        async with an_engine() as engine:
            _, _, body = await heard(engine, sound, model="tiny")
            whole = json.loads(body)
            assert whole["text"] and whole["usage"] == {"type": "duration", "seconds": 2}
            assert (await heard(engine, sound, response_format="text"))[2].decode() == whole["text"]
            assert json.loads((await heard(engine, sound, response_format="verbose_json"))[2])["text"] == whole["text"]
            chunks = events((await heard(engine, sound, stream="true"))[2])
            assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks) == whole["text"]
            assert chunks[-1]["choices"][0]["finish_reason"] in ("stop", "length")
            page = (await ask(engine, "GET", "/metrics"))[2].decode()
            (computed,) = [line for line in page.splitlines() if line.startswith("vllm:prompt_tokens_total{")]
            assert float(computed.rpartition(" ")[2]) == 4 * (len(sound) // 640), "50 positions a second"
            status, _, body = await heard(engine, sound, response_format="srt")
            assert status == 400 and b"response_format" in body

    loop.run(main())


def test_speech_lasts_as_its_tokens_do() -> None:
    async def main() -> None:
        async with an_engine() as engine:
            body = {"model": "tiny", "input": "Say this.", "voice": "any"}
            status, headers, sound = await ask(
                engine, "POST", "/v1/audio/speech", body, **{"x-emulated-output-tokens": "25"}
            )
            assert (status, headers["content-type"]) == (200, "audio/wav")
            with wave.open(io.BytesIO(sound)) as file:
                assert file.getnframes() / file.getframerate() == 2.0

    loop.run(main())


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/rerank", {"query": "x"}, "body.documents"),
        ("/score", {"text_1": "x"}, "body.text_2"),
        ("/classify", {}, "body.input"),
        ("/v1/audio/speech", {"model": "tiny"}, "body.input"),
    ],
)
def test_what_is_missing_is_named(path: str, body: Any, param: str) -> None:
    async def main() -> None:
        async with an_engine() as engine:
            status, _, answer = await ask(engine, "POST", path, body)
            assert status == 400 and json.loads(answer)["error"]["param"] == param

    loop.run(main())


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": [{"type": "tool_result"}]}],
        [{"role": "user", "content": [5]}],
        [{"content": "x"}],
        "Hi",
        [{"role": "user", "content": [{"type": "image", "source": {}}]}],
    ],
)
def test_messages_that_are_none_are_refused(messages: Any) -> None:
    async def main() -> None:
        async with an_engine() as engine:
            status, _, answer = await ask(engine, "POST", "/v1/messages", {**MESSAGE, "messages": messages})
            found = json.loads(answer)
            assert status == 400 and found["type"] == "error" and found["error"]["message"]

    loop.run(main())
