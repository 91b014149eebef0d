"""The engine over real sockets: the official client, bare bytes, and clients that leave."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest

from poise.live.http import loop
from tests.live.emulator.clients import CHAT, Line, an_engine, ask, chat, events, until


def test_the_official_client_chats() -> None:
    """Streamed and whole answers are equal, and usage counts the pieces."""

    async def main() -> None:
        async with an_engine() as engine, openai.AsyncOpenAI(base_url=engine.url + "/v1", api_key="none") as client:
            messages: Any = [{"role": "user", "content": "Tell me something."}]
            whole = await client.chat.completions.create(model="tiny", messages=messages, max_tokens=40, seed=1)
            stream = await client.chat.completions.create(
                model="tiny", messages=messages, max_tokens=40, seed=1, stream=True,
                stream_options={"include_usage": True},
            )  # fmt: skip
            chunks = [chunk async for chunk in stream]
            assert chunks[0].choices[0].delta.role == "assistant"
            pieces = [chunk.choices[0].delta.content or "" for chunk in chunks[1:-1]]
            assert whole.usage is not None and chunks[-1].usage is not None and not chunks[-1].choices
            assert len(pieces) == whole.usage.completion_tokens == chunks[-1].usage.completion_tokens
            assert "".join(pieces) == whole.choices[0].message.content
            assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
            assert [model.id async for model in client.models.list()] == ["tiny"]

    loop.run(main())


def test_the_official_client_does_the_rest() -> None:
    async def main() -> None:
        async with an_engine() as engine, openai.AsyncOpenAI(base_url=engine.url + "/v1", api_key="none") as client:
            done = await client.completions.create(
                model="tiny", prompt="Once", max_tokens=12, extra_body={"ignore_eos": True}
            )
            assert done.usage is not None and done.usage.completion_tokens == 12
            assert done.choices[0].finish_reason == "length"
            vectors = await client.embeddings.create(model="tiny", input=["one", "two"])
            plain = await client.embeddings.create(model="tiny", input="one", encoding_format="float")
            assert len(vectors.data) == 2
            assert vectors.data[0].embedding == pytest.approx(plain.data[0].embedding, abs=1e-6)
            response = await client.responses.create(model="tiny", input="Hello", max_output_tokens=30)
            streamed = [event async for event in await client.responses.create(
                model="tiny", input="Hello", max_output_tokens=30, stream=True
            )]  # fmt: skip
            assert streamed[-1].response.output_text == response.output_text != ""  # type: ignore[union-attr]
            with pytest.raises(openai.NotFoundError, match="The model `other` does not exist"):
                await client.completions.create(model="other", prompt="Once")
            with pytest.raises(openai.BadRequestError, match="temperature must be non-negative"):
                await client.completions.create(model="tiny", prompt="Once", temperature=-1)

    asyncio.run(main())


def test_a_stream_on_the_wire() -> None:
    """Each token comes in a chunk of its own; the connection stays open for the next request."""

    async def main() -> None:
        async with an_engine() as engine:
            line = await Line.to(engine)
            for _ in range(2):
                line.send("POST", CHAT, chat(stream=True, max_tokens=6, ignore_eos=True))
                status, headers, body = await line.answer()
                assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
                assert headers["transfer-encoding"] == "chunked"
                assert len(events(body)) == 1 + 6
            await line.close()

    asyncio.run(main())


def test_facts() -> None:
    async def main() -> None:
        async with an_engine(max_model_len=1000) as engine:
            for path in ("/health", "/ping"):
                assert (await ask(engine, "GET", path))[::2] == (200, b"")
            _, _, body = await ask(engine, "POST", "/tokenize", {"prompt": "Hello there"})
            result = json.loads(body)
            assert (result["count"], result["max_model_len"], len(result["tokens"])) == (4, 1000, 4)
            _, _, body = await ask(engine, "POST", "/detokenize", {"tokens": result["tokens"]})
            assert json.loads(body) == {"prompt": "Hello there"}
            assert json.loads((await ask(engine, "GET", "/load"))[2]) == {"server_load": 0}
            assert "version" in json.loads((await ask(engine, "GET", "/version"))[2])
            status, headers, body = await ask(engine, "GET", "/metrics")
            assert status == 200 and headers["content-type"].startswith("text/plain")
            assert b'vllm:num_requests_running{engine="0",model_name="tiny"} 0.0' in body
            assert (await ask(engine, "GET", "/nowhere"))[::2] == (404, b'{"detail":"Not Found"}')
            assert (await ask(engine, "GET", CHAT))[::2] == (405, b'{"detail":"Method Not Allowed"}')
            assert (await ask(engine, "POST", "/detokenize", {"tokens": "x"}))[0] == 400

    asyncio.run(main())


def test_keys() -> None:
    async def main() -> None:
        async with an_engine(api_key=("one", "two")) as engine:
            assert (await ask(engine, "GET", "/v1/models"))[::2] == (401, b'{"error":"Unauthorized"}')
            assert (await ask(engine, "GET", "/v1/models", authorization="Bearer three"))[0] == 401
            assert (await ask(engine, "GET", "/v1/models", authorization="Basic one"))[0] == 401
            assert (await ask(engine, "GET", "/v1/models", authorization="Bearer two"))[0] == 200
            assert (await ask(engine, "GET", "/health"))[0] == 200

    asyncio.run(main())


def test_ids_may_be_the_callers() -> None:
    async def main() -> None:
        async with an_engine() as engine:
            _, _, body = await ask(engine, "POST", CHAT, chat(max_tokens=1), x_request_id="mine")
            assert json.loads(body)["id"] == "chatcmpl-mine"
            _, _, body = await ask(engine, "POST", "/v1/completions", {"prompt": "Hi", "request_id": "own"})
            assert json.loads(body)["id"] == "cmpl-own"

    asyncio.run(main())


def test_output_length_by_header() -> None:
    async def main() -> None:
        async with an_engine() as engine:
            _, _, body = await ask(engine, "POST", CHAT, chat(max_tokens=99), x_emulated_output_tokens="17")
            result = json.loads(body)
            assert (result["usage"]["completion_tokens"], result["choices"][0]["finish_reason"]) == (17, "stop")
            assert (await ask(engine, "POST", CHAT, chat(), x_emulated_output_tokens="many"))[0] == 400

    asyncio.run(main())


def test_cached_tokens_are_reported() -> None:
    """The second request computes only the last block again, and the third turn finds the answer of the second."""

    async def main() -> None:
        async with an_engine(enable_prompt_tokens_details=True) as engine:
            cached, prompt = [], []
            messages = [{"role": "user", "content": "x" * 1024}]
            for _ in range(2):
                _, _, body = await ask(
                    engine, "POST", CHAT, {"messages": messages, "max_tokens": 64, "ignore_eos": True}
                )
                result = json.loads(body)
                prompt.append(result["usage"]["prompt_tokens"])
                cached.append(result["usage"]["prompt_tokens_details"]["cached_tokens"])
            messages += [result["choices"][0]["message"], {"role": "user", "content": "Go on."}]
            _, _, body = await ask(engine, "POST", CHAT, {"messages": messages, "max_tokens": 5})
            assert cached == [0, (prompt[0] - 1) // 16 * 16]
            turn = json.loads(body)["usage"]["prompt_tokens_details"]["cached_tokens"]
            assert turn == (prompt[0] + 64 - 1) // 16 * 16
            hits = sum([*cached, turn])
            _, _, body = await ask(engine, "GET", "/metrics")
            assert f'vllm:prefix_cache_hits_total{{engine="0",model_name="tiny"}} {hits}.0'.encode() in body
            assert (await ask(engine, "POST", "/reset_prefix_cache"))[0] == 200
            assert not engine.replica.pool.nodes

    asyncio.run(main())


def test_a_client_that_leaves_frees_its_blocks() -> None:
    """Waiting, computing its prompt, streaming, or not streaming."""

    async def main() -> None:
        async with an_engine(max_num_seqs=2, enable_prefix_caching=False, speed=1.0) as engine:
            lines = [await Line.to(engine) for _ in range(4)]
            for number, line in enumerate(lines):
                line.send("POST", CHAT, chat("x" * 4000, max_tokens=4000, ignore_eos=True, stream=number % 2 == 0))
            await until(lambda: len(engine.replica.waiting) == 2 and engine.core.metrics.tokens > 4)
            assert json.loads((await ask(engine, "GET", "/load"))[2]) == {"server_load": 4}
            for line in lines:
                await line.close()
            await until(lambda: not engine.core.driver.listeners and not engine.replica.running)
            pool = engine.replica.pool
            assert not engine.replica.sequences and pool.held == pool.explicit == pool.cached == 0
            assert engine.server.open == 0

    asyncio.run(main())


def test_many_at_once_each_end_once() -> None:
    """More than run together, on a cache so small that some are preempted; usage equals what came."""

    tokens = 300  # two requests fill the cache, however slowly they come

    async def main() -> None:
        given = {"num_gpu_blocks_override": 60, "max_model_len": 600, "max_num_seqs": 16, "max_num_batched_tokens": 256}
        async with an_engine(**given) as engine:

            async def one(number: int) -> None:
                options = {"include_usage": True}
                body = chat(f"{number} " * 40, stream=True, stream_options=options, max_tokens=tokens, ignore_eos=True)
                status, _, raw = await ask(engine, "POST", CHAT, body)
                received = events(raw)
                assert status == 200
                assert len(received) == 1 + tokens + 1 and received[-1]["usage"]["completion_tokens"] == tokens

            await asyncio.gather(*map(one, range(40)))
            assert engine.core.driver.preemptions > 0
            metrics = engine.core.metrics
            assert (metrics.tokens, metrics.finished["length"], metrics.first.count) == (40 * tokens, 40, 40)
            engine.replica.pool.check(0)

    asyncio.run(main())
