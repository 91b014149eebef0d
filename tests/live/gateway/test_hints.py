"""How long KV is to stay: what the gateway asks, what it tells engines, and what comes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from poise.core.errors import PolicyError
from poise.core.policy import Cache
from poise.core.request import NO_TOOL, UNKNOWN_TOOL, RequestView
from poise.core.units import SECOND
from poise.live.emulator.options import Options
from poise.live.gateway.hints import Hints, hinted, try_out
from poise.live.gateway.tool_calls import TOOLS, Called, Tools
from poise.live.http.loop import run
from poise.policies.cache.belady import Belady
from poise.policies.cache.continuum import Continuum
from poise.policies.cache.fixed_ttl import FixedTtl
from poise.policies.cache.oracle_ttl import OracleTtl
from poise.policies.cache.saga import Saga
from tests.live.gateway.fakes import JSON, Bench
from tests.live.gateway.live import MODEL, Live

STREAM = b"".join(
    b"data: " + json.dumps({"choices": [each]}, separators=(",", ":")).encode() + b"\n\n"
    for each in (
        {"delta": {"content": 'say "function":{"name":"no"}'}, "finish_reason": None},
        {"delta": {"tool_calls": [{"index": 0, "function": {"name": "search", "arguments": ""}}]}},
        {"delta": {"tool_calls": [{"index": 1, "function": {"name": "read", "arguments": ""}}]}},
        {"delta": {}, "finish_reason": "tool_calls"},
    )
)


MESSAGES = b"".join(
    b"event: %b\ndata: %b\n\n" % (each["type"].encode(), json.dumps(each, separators=(",", ":")).encode())  # type: ignore[attr-defined]
    for each in (
        {"type": "message_start", "message": {"stop_reason": None}},
        {
            "type": "content_block_delta",
            "delta": {"type": "text_delta", "text": '"type":"tool_use","id":"x","name":"no"'},
        },
        {
            "type": "content_block_start",
            "content_block": {"type": "tool_use", "id": "t1", "name": "search", "input": {}},
        },
        {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "t2", "name": "read", "input": {}}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}},
    )
)


# What answers call ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_the_first_tool_is_found_however_the_answer_is_cut(size: int) -> None:
    called, tools = Called(), Tools()
    for at in range(0, len(STREAM), size):
        called.see(STREAM[at : at + size])
    assert (called.name, called.finish) == (b"search", b"tool_calls")
    assert called.tool(tools) == 0 == tools.number(b"search")


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_the_first_tool_of_a_message_is_found(size: int) -> None:
    called = Called()
    for at in range(0, len(MESSAGES), size):
        called.see(MESSAGES[at : at + size])
    assert (called.name, called.finish) == (b"search", b"tool_use") and called.tool(Tools()) == 0


def test_a_stop_string_is_no_reason_to_stop() -> None:
    called = Called()
    called.see(b'{"choices":[{"finish_reason":"stop","stop_reason":"tool"')
    called.see(b" " * 200 + b"}]}")
    assert called.finish == b"stop" and called.tool(Tools()) == NO_TOOL


@pytest.mark.parametrize(
    ("finish", "tool"), [("stop", NO_TOOL), ("length", UNKNOWN_TOOL), ("tool_calls", UNKNOWN_TOOL)]
)
def test_an_answer_without_a_name_says_what_its_end_says(finish: str, tool: int) -> None:
    called = Called()
    called.see(json.dumps({"choices": [{"message": {"content": "x"}, "finish_reason": finish}]}).encode())
    assert called.tool(Tools()) == tool


def test_no_more_tools_are_distinguished_than_may_be() -> None:
    tools = Tools()
    numbers = [tools.number(b"%d" % name) for name in range(TOOLS + 5)]
    assert numbers == [*range(TOOLS), *[UNKNOWN_TOOL] * 5]
    assert tools.number(b"3") == 3


# What engines are told ------------------------------------------------------------------------------------------------


def test_a_hint_is_added_and_the_rest_of_the_body_stays() -> None:
    body = b'{"model": "m",  "x": [1.50] }\n'
    found = hinted(body, 3 * SECOND // 2)
    assert found.startswith(b'{"model": "m",  "x": [1.50] ')
    assert json.loads(found)["nvext"] == {"cache_control": {"type": "ephemeral", "ttl": "2s"}}


def test_what_the_client_says_itself_stands() -> None:
    own = {"nvext": {"cache_control": {"ttl": "1h"}, "greed_sampling": True}}
    assert json.loads(hinted(json.dumps(own).encode(), SECOND)) == own
    other = json.loads(hinted(b'{"nvext": {"agent_hints": {"osl": 9}}}', SECOND))["nvext"]
    assert other == {"cache_control": {"type": "ephemeral", "ttl": "1s"}, "agent_hints": {"osl": 9}}
    assert hinted(b'{"nvext": 5}', SECOND) == b'{"nvext": 5}'


class Notes(FixedTtl):
    """Notes what it is asked."""

    def __post_init__(self) -> None:
        self.calls: list[tuple[int, int, int]] = []

    def cache(self, request: RequestView, sequence: Any, lane: Any) -> int:
        self.calls.append((request.id, sequence.tool, sequence.produced))
        return super().cache(request, sequence, lane)


def a_bench(cache: Cache, engines: int = 2) -> Bench:
    bench = Bench(engines)
    bench.world.hints = Hints(cache, lambda: bench.now, bench.world.policy_failed)
    for engine in bench.engines:
        object.__setattr__(engine.at, "hints", True)
    return bench


def calls_of(bench: Bench) -> list[tuple[int, int, int]]:
    assert bench.world.hints is not None
    return bench.world.hints.cache.calls  # type: ignore[attr-defined, no-any-return]


def test_the_policy_is_called_as_a_request_is_sent_and_as_its_answer_ends() -> None:
    bench = a_bench(Notes(ttl_s=30))
    bench.ask(body=b'{"model": "m"}', session=4)
    bench.ask(body=b'{"model": "m"}', session=-1)
    first, other = bench.calls
    assert json.loads(first.body)["nvext"]["cache_control"]["ttl"] == "30s" and b"nvext" not in other.body
    first.fail("reset")
    again = next(call for call in bench.calls if call is not other)
    assert again.body == first.body, "the same hint wherever it is sent"
    again.head(200, JSON)
    again.data(b'{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":7}}')
    again.end()
    other.answer()
    assert calls_of(bench) == [(0, UNKNOWN_TOOL, 0), (0, UNKNOWN_TOOL, 7)], (
        "an answer of /v1/completions names no tools"
    )
    bench.check_balance()


def test_an_engine_that_takes_no_hints_is_sent_none() -> None:
    bench = a_bench(Notes())
    object.__setattr__(bench.engines[0].at, "hints", False)
    object.__setattr__(bench.engines[1].at, "hints", False)
    bench.ask(body=b'{"model": "m"}', session=4)
    (call,) = bench.calls
    call.answer()
    assert call.body == b'{"model": "m"}' and calls_of(bench) == []


class Broken(FixedTtl):
    """Raises."""

    def cache(self, request: RequestView, sequence: Any, lane: Any) -> int:
        raise ZeroDivisionError("no")


def test_a_policy_that_raises_costs_a_hint_and_no_request() -> None:
    bench = a_bench(Broken())
    wire, _, _ = bench.ask(body=b'{"model": "m"}', session=4)
    (call,) = bench.calls
    call.answer()
    assert call.body == b'{"model": "m"}' and wire.status == 200
    assert bench.world.policy_errors == 2 and "ZeroDivisionError" in bench.world.policy_error
    bench.check_balance()


@pytest.mark.parametrize(
    ("cache", "message"),
    [(Saga(), "ranks"), (Belady(), "ranks"), (OracleTtl(), "future"), (Broken(), "ZeroDivisionError")],
)
def test_what_a_gateway_cannot_ask_is_refused(cache: Cache, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        try_out(cache)


def test_those_that_it_can_ask_are_left_as_they_were() -> None:
    for cache in (FixedTtl(), Continuum()):
        try_out(cache)
        assert cache == type(cache)()


def test_continuum_learns_from_tools_at_the_gateway() -> None:
    """With two tools of 3 s met, and prompts of 100 s, KV is worth keeping for just those 3 s."""
    bench = a_bench(Continuum(cold=2), engines=1)
    object.__setattr__(bench.engines[0].at, "prefill_rate", 1.0)
    seen = []
    for _ in range(3):
        bench.ask(body=b'{"model": "m"}', session=4, prompt=100)
        (call,) = bench.calls
        seen.append(json.loads(call.body)["nvext"]["cache_control"]["ttl"])
        call.answer()
        bench.now += 3 * SECOND
    assert seen == ["2s", "2s", "4s"], "two records short of knowing, then 3 s and the instants between"


# What comes of it -----------------------------------------------------------------------------------------------------

SMALL = Options(MODEL, port=0, speed=20.0, num_gpu_blocks_override=200, max_model_len=2000,
                enable_prompt_tokens_details=True)  # fmt: skip


async def _cached(cache: Cache | None) -> int:
    """Prompt tokens that a session's second turn finds, after others have filled the engine's cache."""
    async with Live([SMALL], hints=True, cache=cache) as live:
        mine = [(b"x-session-id", b"agent")]
        context = "What I have found out so far. " * 60
        assert (await live.ask(context, 4, headers=mine).wait()).whole
        for number in range(8):
            assert (await live.ask(f"{number} others ask. " * 120, 4).wait()).whole
        answer = await live.ask(context + "And what now?", 4, stream=False, headers=mine).wait()
        await live.check_balance()
        return int(json.loads(answer.body)["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_kept_kv_is_found_by_the_next_turn() -> None:
    async def main() -> None:
        without, short, kept = await _cached(None), await _cached(FixedTtl(0.0)), await _cached(FixedTtl(3600.0))
        assert without == short < 100 and kept > 300, (without, short, kept)

    run(main())


def test_kept_kv_gives_way_to_what_runs() -> None:
    """A hint is no promise: requests that need the room get it."""

    async def main() -> None:
        async with Live([SMALL], hints=True, cache=FixedTtl(3600.0)) as live:
            for number in range(12):
                headers = [(b"x-session-id", b"%d" % number)]
                assert (await live.ask(f"{number} go on. " * 200, 4, headers=headers).wait()).whole
            await live.check_balance()

    run(main())
