"""The gateway's world without sockets: every request ends once, however engines and clients behave."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.records.trace import replay
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.live.discovery.address import Engine as Place
from poise.live.gateway.fleet import EngineAt
from poise.live.gateway.settings import Settings
from tests.core.scripted import Hasty
from tests.live.gateway.fakes import JSON, Bench, Wire


class Ceiling:
    needs = ("requests",)

    def __init__(self, most: int) -> None:
        self.most = most

    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int]:
        return [replica for replica in able if cluster.requests[replica] < self.most]


# A good answer --------------------------------------------------------------------------------------------------------


def test_a_stream_is_passed_on_byte_by_byte_and_counted() -> None:
    bench = Bench(1)
    wire, _, proxied = bench.ask()
    (call,) = bench.calls
    call.head()
    assert wire.sent == b"", "the head waits for the body, so that another engine could still answer"
    call.data(b"data: {}\n\n")
    assert wire.status == 200 and b"\r\ndata: {}\n\n\r\n" in wire.sent
    call.data(b'data: {"usage":{"prompt_tokens":7,"completion_tokens": 3}}\n\ndata: [DONE]\n\n')
    assert bench.control.flights[proxied.view.id].first_token_at == bench.now
    call.end()
    assert wire.done and wire.sent.endswith(b"0\r\n\r\n")
    assert (proxied.usage.prompt, proxied.usage.tokens) == (7, 3)
    assert bench.statuses == [200] and bench.notes[-1] == ("e0", "", True)
    bench.check_balance()


def test_a_whole_answer_tells_its_tokens_too() -> None:
    bench = Bench(1)
    wire, _, proxied = bench.ask(stream=False)
    bench.calls[0].answer(b'{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":9,"cached_tokens":4}}')
    assert (wire.done and wire.body.startswith(b'{"choices"')) or b"usage" in wire.body
    assert (proxied.usage.tokens, proxied.usage.cached) == (9, 4)
    bench.check_balance()


def test_an_empty_answer_ends_as_well() -> None:
    bench = Bench(1)
    wire, _, _ = bench.ask(stream=False)
    bench.calls[0].head(204, [])
    bench.calls[0].end()
    assert wire.done and wire.status == 204
    bench.check_balance()


# Another engine -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["refused", "dns", "reset", "cut", "timeout", "garbage"])
def test_before_the_first_byte_another_engine_is_tried(kind: str) -> None:
    bench = Bench(2)
    wire, _, _ = bench.ask()
    first = bench.calls[0]
    first.fail(kind)  # type: ignore[arg-type]
    (second,) = bench.calls
    assert second.pool is not first.pool and not wire.sent
    second.head()
    second.data(b"data: x\n\n")
    second.end()
    assert wire.done and wire.status == 200
    assert [each[1:] for each in bench.notes] == [(kind, False), ("", True)]
    bench.check_balance()


def test_a_head_without_a_body_does_not_bind() -> None:
    bench = Bench(2)
    wire, _, _ = bench.ask()
    bench.calls[0].head()
    bench.calls[0].fail("cut", True)
    bench.calls[0].answer()
    assert wire.done and wire.status == 200


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_another_may_answer_is_sent_to_another(status: int) -> None:
    bench = Bench(2)
    wire, _, _ = bench.ask()
    bench.calls[0].answer(b'{"error":1}', status)
    bench.calls[0].answer(b"{}")
    assert wire.status == 200
    bench.check_balance()


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_mistake_of_the_client_is_passed_on_in_the_engines_words(status: int) -> None:
    bench = Bench(2)
    wire, _, _ = bench.ask()
    bench.calls[0].answer(b'{"error":{"message":"bad"}}', status)
    assert (wire.status, wire.body, wire.done) == (status, b'{"error":{"message":"bad"}}', True)
    assert bench.notes == [], "it does not speak against the engine"
    bench.check_balance()


def test_when_all_were_tried_the_last_ones_words_are_passed_on() -> None:
    bench = Bench(2)
    wire, _, _ = bench.ask()
    bench.calls[0].fail()
    bench.calls[0].answer(b'{"error":"busy"}', 503)
    assert (wire.status, wire.body) == (503, b'{"error":"busy"}')
    bench.check_balance()


def test_without_words_the_gateway_finds_its_own() -> None:
    bench = Bench(1)
    wire, _, _ = bench.ask()
    bench.calls[0].fail("reset")
    assert wire.status == 503 and b"the engine broke off" in wire.body and b"retry-after: 1" in wire.sent
    assert b"e0" not in wire.sent and any("e0: was reset" in line for line in bench.trace.lines)
    bench.check_balance()


def test_a_stale_connection_is_no_failure_of_the_engine() -> None:
    bench = Bench(1)
    wire, _, _ = bench.ask()
    bench.calls[0].fail("stale")
    bench.calls[0].answer()
    assert wire.status == 200 and bench.notes == [("e0", "", True)]
    bench.check_balance()


def test_after_the_first_byte_no_other_engine_is_tried() -> None:
    bench = Bench(2)
    wire, _, _ = bench.ask()
    bench.calls[0].head()
    bench.calls[0].data(b"data: a\n\n")
    bench.calls[0].fail("cut", True)
    assert bench.calls == [] and wire.was_cut
    assert b'data: {"error":{"message":"the engine broke off before' in wire.sent
    bench.check_balance()


# Clients and limits ---------------------------------------------------------------------------------------------------


def test_a_client_that_leaves_is_taken_from_its_engine() -> None:
    bench = Bench(1)
    _, exchange, _ = bench.ask()
    call = bench.calls[0]
    exchange.leave()
    assert call.cancelled and bench.statuses == [499]
    bench.check_balance()


def test_a_client_that_leaves_while_it_is_held_is_never_sent() -> None:
    bench = Bench(1, admission=[Ceiling(1)])
    bench.ask()
    _, exchange, _ = bench.ask()
    exchange.leave()
    bench.calls[0].answer()
    assert bench.calls == []
    bench.check_balance()


def test_a_request_that_waits_too_long_is_refused() -> None:
    bench = Bench(1, admission=[Ceiling(1)], settings=Settings(held_s=5))
    bench.ask()
    wire, _, _ = bench.ask()
    bench.pass_s(4)
    assert not wire.sent
    bench.pass_s(2)
    assert wire.status == 503 and b"retry-after: 1" in wire.sent and b"5 s" in wire.body
    assert len(bench.calls) == 1
    bench.calls[0].answer()
    bench.check_balance()


def test_a_life_has_an_end() -> None:
    bench = Bench(1, settings=Settings(request_s=5))
    silent, _, _ = bench.ask()
    talking, _, _ = bench.ask()
    bench.calls[1].head()
    bench.calls[1].data(b"data: a\n\n")
    bench.pass_s(6)
    assert silent.status == 504 and talking.was_cut and bench.calls == []
    bench.check_balance()


def test_the_end_of_the_gateway_is_an_end_for_all() -> None:
    bench = Bench(1, admission=[Ceiling(2)])
    wires = [bench.ask()[0] for _ in range(4)]
    bench.calls[0].head()
    bench.calls[0].data(b"data: a\n\n")
    bench.world.end_all("the gateway stops")
    assert all(wire.ended for wire in wires) and bench.calls == []
    assert [wire.status for wire in wires] == [200, 503, 503, 503]
    bench.check_balance()


def test_a_slow_reader_slows_its_engine_and_the_next_one_too() -> None:
    bench = Bench(2)
    _, exchange, _ = bench.ask()
    assert exchange.flow is not None
    exchange.flow(False)
    assert bench.calls[0].paused
    bench.calls[0].fail("reset")
    assert bench.calls[0].paused
    exchange.flow(True)
    assert not bench.calls[0].paused


# The fleet ------------------------------------------------------------------------------------------------------------


def test_an_engine_that_leaves_ends_what_it_has_and_its_slot_is_given_again() -> None:
    bench = Bench(1, slots=2)
    wire, _, _ = bench.ask()
    bench.world.fleet.remove(bench.engines[0])
    held, _, _ = bench.ask()
    assert len(bench.calls) == 1 and not held.sent
    bench.calls[0].answer()
    assert wire.status == 200
    bench.pass_s(0)
    assert bench.world.fleet.slots == [None, None]
    new = bench.add("new")
    bench.engines[0] = new
    assert new.slot == 0
    bench.calls[0].answer()
    assert held.status == 200
    bench.check_balance()


def test_an_ejected_engine_gets_nothing_until_it_is_back() -> None:
    bench = Bench(1)
    bench.world.fleet.eject(bench.engines[0])
    wire, _, _ = bench.ask()
    assert bench.calls == []
    bench.world.fleet.join(bench.engines[0], bench.engines[0].spec)
    bench.calls[0].answer()
    assert wire.status == 200


def test_a_fault_in_a_policy_is_an_error_for_one_request_only() -> None:
    class Moody:
        needs = ()

        def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
            if request.id == 0:
                raise ZeroDivisionError
            return Route(0)

    bench = Bench(1, Moody())
    wire, _, _ = bench.ask()
    assert wire.status == 500 and b"policy" in wire.body
    other, _, _ = bench.ask()
    bench.calls[0].answer()
    assert other.status == 200 and bench.world.policy_errors == 1
    bench.check_balance()


# All of it together ---------------------------------------------------------------------------------------------------

steps = st.lists(
    st.tuples(
        st.sampled_from(["ask", "head", "data", "end", "fail", "status", "leave", "flow", "eject", "join", "wait"]),
        st.integers(0, 7),
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(steps, st.integers(1, 3), st.integers(0, 2), st.integers(1, 3), st.booleans())
def test_every_request_ends_exactly_once(
    script: list[tuple[str, int]], engines: int, ceiling: int, tries: int, hedged: bool
) -> None:
    """Whatever happens in whatever order; and the record, replayed, gives the same actions."""
    admission = [Ceiling(ceiling)] if ceiling else []
    hedge = Hasty(10**12) if hedged else None
    bench = Bench(engines, admission=admission, tries=tries, settings=Settings(held_s=3), hedge=hedge)
    requests: list[tuple[Wire, object, object]] = []
    heads: set[int] = set()
    for what, number in script:
        calls = bench.calls
        call = calls[number % len(calls)] if calls else None
        if what == "ask":
            requests.append(bench.ask(stream=number % 2 == 0))
        elif what == "wait":
            bench.pass_s(number)
        elif what in ("eject", "join"):
            engine = bench.engines[number % engines]
            (bench.world.fleet.eject(engine) if what == "eject" else bench.world.fleet.join(engine, engine.spec))
        elif what in ("leave", "flow") and requests:
            exchange = requests[number % len(requests)][1]
            if what == "leave":
                exchange.leave()  # type: ignore[attr-defined]
            elif exchange.flow is not None:  # type: ignore[attr-defined]  # it has not ended
                exchange.flow(number > 3)  # type: ignore[attr-defined]
        elif call is not None:
            if what == "fail":
                call.fail(["refused", "reset", "timeout", "stale"][number % 4])  # type: ignore[arg-type]
            elif what == "status":
                if id(call) not in heads:
                    call.answer(b"{}", [400, 429, 500, 503][number % 4])
            else:
                if id(call) not in heads:
                    heads.add(id(call))
                    call.head(200, JSON)
                if what == "data":
                    call.data(b"data: x\n\n")
                elif what == "end":
                    call.end()
    for engine in bench.engines:
        bench.world.fleet.join(engine, engine.spec)
    for _ in range(len(requests) + 1):
        for call in bench.calls:
            if not call.over:
                call.answer() if id(call) not in heads else call.end()
    bench.pass_s(4)
    assert all(wire.ended or exchange._line is None for wire, exchange, _ in requests)  # type: ignore[attr-defined]
    assert len(bench.statuses) == len(requests)
    bench.check_balance()
    fresh = Bench(0, admission=admission, tries=tries, slots=engines, hedge=hedge)
    assert replay(bench.trace.events, fresh.control) == list(bench.trace.actions)


# Pairs ----------------------------------------------------------------------------------------------------------------


def pair(path: bytes = b"/v1/completions") -> tuple[Bench, Wire]:
    bench = Bench(0, slots=2)
    for name, role in (("p", "prefill"), ("d", "decode")):
        engine = bench.world.fleet.add(EngineAt(Place(name, "127.0.0.1", 1), role=role))  # type: ignore[arg-type]
        assert engine is not None
        bench.world.fleet.join(engine, engine.spec._replace(up=True))
        bench.engines.append(engine)
    wire, exchange, _ = bench.ask(
        body=json.dumps({"model": "m", "stream": True, "max_tokens": 9, "x": [1.5]}).encode(), path=path
    )
    assert exchange.body
    return bench, wire


def test_a_pair_computes_the_prompt_in_one_engine_and_the_output_in_another() -> None:
    bench, wire = pair()
    (prefill,) = bench.calls
    result = json.loads(prefill.body)
    assert (result["max_tokens"], result["stream"], result["x"]) == (1, False, [1.5])
    assert result["kv_transfer_params"]["do_remote_decode"] is True
    prefill.answer(b'{"choices":[],"kv_transfer_params":{"remote_host":"h","remote_block_ids":[3]}}')
    assert not wire.sent and list(bench.control.state.requests) == [0, 1]
    (decode,) = bench.calls
    assert decode.pool is bench.pool(1)
    result = json.loads(decode.body)
    assert (result["max_tokens"], result["stream"]) == (9, True)
    assert result["kv_transfer_params"] == {"remote_host": "h", "remote_block_ids": [3]}
    decode.answer(b"data: x\n\n")
    assert wire.done
    bench.check_balance()


@pytest.mark.parametrize("half", [0, 1])
def test_either_half_may_break(half: int) -> None:
    bench, wire = pair()
    if half:
        bench.calls[0].answer(b"{}")
    bench.calls[0].fail("reset")
    for call in bench.calls:
        call.answer(b"{}")
    for call in bench.calls:
        call.answer(b"{}")
    assert wire.ended
    bench.check_balance()


@pytest.mark.parametrize("path", [b"/v1/rerank", b"/v1/audio/transcriptions", b"/v1/messages/count_tokens"])
def test_what_cannot_be_divided_goes_whole_to_the_engine_that_decodes(path: bytes) -> None:
    bench, wire = pair(path)
    (decode,) = bench.calls
    assert decode.pool is bench.pool(1) and json.loads(decode.body)["max_tokens"] == 9
    decode.answer(b"data: x\n\n")
    assert wire.done
    bench.check_balance()


def test_messages_are_divided_as_chats_are() -> None:
    bench, wire = pair(b"/v1/messages")
    (prefill,) = bench.calls
    assert json.loads(prefill.body)["max_tokens"] == 1
    prefill.answer(b'{"kv_transfer_params":{"remote_host":"h"}}')
    (decode,) = bench.calls
    assert json.loads(decode.body)["kv_transfer_params"] == {"remote_host": "h"}
    decode.answer(b"data: x\n\n")
    assert wire.done
    bench.check_balance()


def test_a_prefill_engine_that_answers_nonsense_is_not_believed() -> None:
    bench, wire = pair()
    bench.calls[0].answer(b"<html>")
    assert wire.status == 503 and b"could not be read" in wire.body
    bench.check_balance()
