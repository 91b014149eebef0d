"""Every path that engines serve today, through the gateway over real sockets: decided on, answered, in its format."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from poise.core.event import Arrived
from poise.core.request import RequestView
from poise.live.emulator.options import Options
from poise.live.gateway.proxied_request import ProxiedRequest
from poise.live.gateway.settings import Settings
from poise.live.gateway.usage import Usage
from poise.live.http.limits import Limits
from poise.live.requests.paths import AUDIO, READERS
from poise.live.requests.tenants import Tenants, parse
from poise.policies.find import build
from tests.live.gateway.live import MODEL, Answer, Live
from tests.live.warp import run

TURN = {"role": "user", "content": "Tell me something."}
SOUND = bytes(range(256)) * 100
MESSAGE = {"model": MODEL, "max_tokens": 5, "messages": [TURN]}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/messages": MESSAGE,
    "/v1/messages/count_tokens": {"model": MODEL, "messages": [TURN]},
    "/rerank": {"model": MODEL, "query": "why", "documents": ["one", "two"]},
    "/score": {"model": MODEL, "text_1": "why", "text_2": ["one", "two"]},
    "/classify": {"model": MODEL, "input": ["one", "two"]},
    "/pooling": {"model": MODEL, "input": "one"},
    "/tokenize": {"model": MODEL, "prompt": "one"},
    "/detokenize": {"model": MODEL, "tokens": [300]},
    "/v1/audio/speech": {"model": MODEL, "input": "Say this.", "voice": "any"},
    "/v1/chat/completions": {"model": MODEL, "messages": [TURN], "max_tokens": 5},
    "/v1/completions": {"model": MODEL, "prompt": "Once", "max_tokens": 5},
    "/v1/responses": {"model": MODEL, "input": "Once", "max_output_tokens": 5},
    "/v1/embeddings": {"model": MODEL, "input": "one"},
}
BODIES |= dict.fromkeys(("/v1/rerank", "/v2/rerank"), BODIES["/rerank"]) | {"/v1/score": BODIES["/score"]}
SOUNDS = ("/v1/audio/transcriptions", "/v1/audio/translations")
SGLANG = {"/v1/tokenize", "/v1/detokenize"}
"""Served by SGLang alone, and not by the emulated engine."""
NO_OUTPUT = ("rank", "score", "classify", "pooling", "tokeni", "count_tokens", "embeddings")
KEYS = "[{name: gold, key: sk-gold}]"


def form(sound: bytes = SOUND, **fields: str) -> bytes:
    parts = [f'--b\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{fields[name]}\r\n' for name in fields]
    file = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    return "".join((*parts, file)).encode() + sound + b"\r\n--b--\r\n"


def send(live: Live, path: str, body: bytes | dict[str, Any], *headers: tuple[bytes, bytes]) -> Answer:
    kind = b"multipart/form-data; boundary=b" if isinstance(body, bytes) else b"application/json"
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = Answer()
    answer.call = live.pool.send(b"POST", path.encode(), [(b"content-type", kind), *headers], data, answer)
    return answer


def views(live: Live) -> list[RequestView]:
    return [event.request for event in live.trace.events if isinstance(event, Arrived)]


def test_every_path_is_decided_on_and_answered() -> None:
    """By the engine that the policy picked; what generates nothing has a limit of one token and no output."""
    ended: list[tuple[str, int, int]] = []

    def watch(proxied: ProxiedRequest, status: int) -> None:
        ended.append((proxied.exchange.path, status, proxied.usage.tokens))

    async def main() -> None:
        assert {*BODIES, *SOUNDS, *SGLANG} == {path.decode() for path in READERS}
        async with Live(2, watchers=[watch]) as live:
            for path in (*BODIES, *SOUNDS):
                answer = await send(live, path, form(model=MODEL) if path in SOUNDS else BODIES[path]).wait()
                assert answer.complete and answer.status == 200, (path, answer.body)
                view = views(live)[-1]
                assert view.model == 0 and view.prompt_tokens >= 1, path
                nothing = any(part in path for part in NO_OUTPUT)
                assert ended[-1][:2] == (path, 200)
                if nothing:
                    assert view.max_tokens == 1 and ended[-1][2] == 0, path
            assert len(views(live)) == len(READERS) - len(SGLANG)
            await live.check_balance()

    run(main())


def test_a_body_without_a_model_means_the_only_one() -> None:
    async def main() -> None:
        async with Live(1) as live:
            body = {name: value for name, value in BODIES["/rerank"].items() if name != "model"}
            assert (await send(live, "/rerank", body).wait()).status == 200
            assert views(live)[-1].model == 0
        several = [Options(MODEL, port=0, served_model_name=("a", "b"))]
        async with Live(several) as live:
            answer = await send(live, "/rerank", body).wait()
            assert answer.status == 400 and "engines serve several; give one of: a, b" in answer.error

    run(main())


def test_errors_of_messages_are_anthropics() -> None:
    async def main() -> None:
        tenants = Tenants(parse(KEYS, "keys"))
        key = (b"x-api-key", b"sk-gold")
        async with Live(1, tenants=tenants) as live:
            cases = [
                (await send(live, "/v1/messages", MESSAGE).wait(), 401, "authentication_error", "key"),
                (await send(live, "/v1/messages", {**MESSAGE, "model": "x"}, key).wait(), 404, "not_found_error", "x"),
                (
                    await send(live, "/v1/messages", {"model": MODEL}, key).wait(),
                    400,
                    "invalid_request_error",
                    "messages",
                ),
                (await send(live, "/v1/messages", b"x" * 11 * 2**20, key).wait(), 413, "request_too_large", "10485760"),
            ]
            assert (await send(live, "/v1/messages", MESSAGE, key).wait()).status == 200
            for engine in live.engines:
                await engine.stop()
            cases.append((await send(live, "/v1/messages", MESSAGE, key).wait(), 503, "overloaded_error", "engine"))
        for answer, status, kind, expected in cases:
            found = json.loads(answer.body)
            assert (answer.status, found["type"], found["error"]["type"]) == (status, "error", kind), answer.body
            assert expected in found["error"]["message"]

    run(main())


def test_a_stream_of_messages_that_breaks_off_ends_with_an_error_event() -> None:
    async def main() -> None:
        async with Live(1) as live:
            live.engines[0].fault("cut", after_tokens=2)
            body = {**MESSAGE, "max_tokens": 50, "stream": True}
            answer = await send(live, "/v1/messages", body, (b"x-session-id", b"s")).wait()
            assert not answer.complete
            name, _, data = answer.body.rpartition(b"event: ")[2].partition(b"\ndata: ")
            assert (name, json.loads(data)["type"], json.loads(data)["error"]["type"]) == (
                b"error",
                "error",
                "api_error",
            )
            await live.check_balance()

    run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_tokens_of_messages_are_counted_as_the_engine_did(stream: bool) -> None:
    """Also where those found in the cache, and those written to it, are counted by themselves."""
    seen: list[Usage] = []

    async def main() -> None:
        options = Options(MODEL, port=0, speed=20.0, enable_prompt_tokens_details=True)
        async with Live([options], watchers=[lambda proxied, status: seen.append(proxied.usage)]) as live:
            body = {**MESSAGE, "stream": stream, "messages": [{"role": "user", "content": "x" * 400}]}
            for _ in range(2):
                answer = await send(live, "/v1/messages", body, (b"x-emulated-output-tokens", b"4")).wait()
                assert answer.complete and answer.status == 200
            first, again = seen
            assert (first.prompt, first.cached, first.tokens) == (again.prompt, 0, 4)
            assert again.prompt > 100 and again.cached == again.prompt - again.prompt % 16 and again.tokens == 4

    run(main())


def test_output_so_far_of_a_stream_of_messages_is_its_deltas() -> None:
    usage = Usage(True, True)
    usage.see(b'event: message_start\ndata: {"message":{"usage":{"input_tokens":9,"output_tokens":0}}}\n\n')
    assert (usage.prompt, usage.tokens) == (9, 0)
    for _ in range(3):
        usage.see(b'event: content_block_delta\ndata: {"delta":{}}\n\n')
    assert usage.tokens == 3
    usage.see(
        b'event: message_delta\ndata: {"usage":{"input_tokens":2,"output_tokens":5,"cache_read_input_tokens":7}}\n\n'
    )
    assert (usage.prompt, usage.cached) == (9, 7)
    usage.see(b'event: message_delta\ndata: {"usage":{"output_tokens":6,"cache_read_input_tokens":7}}\n\n')
    assert (usage.prompt, usage.cached, usage.end()) == (9, 7, 6), "the prompt is not counted twice"


def test_turns_of_messages_stay_with_the_engine_that_has_their_prefix() -> None:
    """As those of chats do, system prompt and marks of the cache included."""

    async def main() -> None:
        options = Options(MODEL, port=0, speed=20.0, enable_prompt_tokens_details=True)
        async with Live([options] * 3, build("router", "prefix_cache")) as live:
            for name in "abcd":
                turns: list[dict[str, Any]] = []
                cached = []
                for number in range(4):
                    block = {"type": "text", "text": f"{name} {number} " * 90, "cache_control": {"type": "ephemeral"}}
                    body = {
                        **MESSAGE,
                        "system": f"You are {name}. " * 40,
                        "messages": [*turns, {"role": "user", "content": [block]}],
                    }
                    answer = json.loads((await send(live, "/v1/messages", body).wait()).body)
                    cached.append(answer["usage"]["cache_read_input_tokens"])
                    del block["cache_control"]
                    turns += [{"role": "user", "content": [block]}, {"role": "assistant", "content": answer["content"]}]
                assert cached[0] < 64 and cached[1] > 200 and cached == sorted(cached), cached
            await live.check_balance()

    run(main())


def test_a_sound_may_be_longer_than_other_bodies() -> None:
    async def main() -> None:
        clients = Limits(body_bytes=10_000, large_bytes=50_000, large=AUDIO)
        async with Live(1, settings=Settings(clients=clients)) as live:
            path = "/v1/audio/transcriptions"
            assert (await send(live, path, form(bytes(40_000), model=MODEL)).wait()).status == 200
            refused = await send(live, path, form(bytes(60_000), model=MODEL)).wait()
            assert refused.status == 413 and "longer than 50000 bytes" in refused.error
            other = await send(live, "/v1/completions", {"model": MODEL, "prompt": "x" * 20_000}).wait()
            assert other.status == 413 and "longer than 10000 bytes" in other.error

    run(main())


def test_hints_go_only_with_what_generates() -> None:
    """A form or a rerank's body reaches the engine as it was sent."""

    async def main() -> None:
        async with Live(1, cache=build("cache", "fixed_ttl"), hints=True) as live:
            for path in (*BODIES, *SOUNDS):
                body = form(model=MODEL) if path in SOUNDS else BODIES[path]
                assert (await send(live, path, body, (b"x-session-id", b"s")).wait()).status == 200, path
            await live.check_balance()

    run(main())


def test_settings_of_a_file_reach_the_limit() -> None:
    assert replace(Limits(), large=AUDIO, large_bytes=7).body_limit(b"/v1/audio/speech") == Limits().body_bytes
    assert replace(Limits(), large=AUDIO, large_bytes=1 << 40).body_limit(b"/v1/audio/speech") == 1 << 40
    assert Limits(large_bytes=1 << 40).body_limit(b"/v1/audio/speech") == Limits().body_bytes
