"""Requests that a proxy carries, without a proxy: Control's books follow whatever the proxy does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.action import Dispatch, Hold, Route
from poise.core.chance import Chance
from poise.core.event import Cancelled, Failed, Finished, FirstToken, Prefilled, Refused, Restricted
from poise.core.policy import Admission, Router
from poise.core.records.header import header
from poise.core.records.trace import replay
from poise.core.request import RequestView
from poise.core.spec import Belief, ReplicaSpec
from poise.core.view import ClusterView
from poise.live.discovery.address import Engine as Place
from poise.live.gateway.api import Api
from poise.live.gateway.fleet import Engine, EngineAt
from poise.live.gateway.settings import Settings
from poise.live.http.call import Failure
from poise.live.integrations.choice import Fallback, Subset
from poise.live.integrations.ext_proc_request import ExtProcRequest, Headers, Picked, endpoint
from poise.live.requests.text_prefix import Pieces
from poise.policies.admit.ceiling import Ceiling
from poise.policies.route.least_requests import LeastRequests
from poise.recordings.control import replayed
from tests.live.gateway.fakes import JSON, SSE, Bench

WHERE = [f"10.0.0.{number}:8000" for number in range(9)]


class FakeProxy:
    """What it was told; and what it tells, by way of the test."""

    def __init__(self) -> None:
        self.endpoints: list[str] = []
        self.headers: dict[bytes, bytes] = {}
        self.refusal: tuple[int, dict[bytes, bytes], Any] | None = None
        self.was_cut = False
        self.passage: ExtProcRequest

    def route(self, endpoints: Sequence[str], headers: Headers) -> None:
        assert not self.endpoints and self.refusal is None, "a proxy is told once"
        self.endpoints, self.headers = list(endpoints), dict(headers)

    def refuse(self, status: int, headers: Headers, body: bytes) -> None:
        assert self.refusal is None, "a client is answered once"
        self.refusal = status, dict(headers), json.loads(body)

    def cut(self) -> None:
        self.was_cut = True

    @property
    def proxied(self) -> Picked:
        assert self.passage.proxied is not None
        return self.passage.proxied


class Front(Bench):
    """A bench whose clients come by way of a proxy."""

    def __init__(self, engines: int = 2, router: Router | None = None, **given: Any) -> None:
        super().__init__(engines, router or Fallback(LeastRequests()), **given)
        self.api = Api(self.world, Pieces())
        self.api.proxied_requests[ExtProcRequest] = Picked

    def add(self, name: str) -> Engine:
        number = sum(1 for _ in self.world.fleet)
        engine = self.world.fleet.add(EngineAt(Place(name, f"10.0.0.{number}", 8000)))
        assert engine is not None
        self.world.fleet.join(engine, ReplicaSpec())
        return engine

    def come(self, *, stream: bool = True, subset: frozenset[str] | None = None, **given: Any) -> FakeProxy:
        body = json.dumps({"model": "m", "prompt": "p", "stream": stream, **given}).encode()
        self.now += 1
        proxy = FakeProxy()
        proxy.passage = ExtProcRequest(proxy, "POST", b"/v1/completions", [], body, self.now, subset)
        proxy.passage.ask(self.api)
        return proxy

    def lose(self, slot: int) -> None:
        """As the scout finds an engine dead."""
        for proxied in self.world.on(slot):
            if proxied.call is not None:
                proxied.stop()
                proxied.failed(Failure("reset", "the engine is gone", False))
        self.world.fleet.lose(self.engines[slot])

    def happened(self, *kinds: type) -> list[Any]:
        return [each for each in self.trace.items() if isinstance(each, kinds)]


def _answer(proxy: FakeProxy, served: str = "", status: int = 200) -> None:
    proxy.proxied.answered(status, SSE if status == 200 else JSON, served)
    proxy.proxied.passes(b"data: {}\n\n")
    proxy.proxied.passed()
    proxy.passage.over()


def test_an_answer_that_passes_is_counted_as_one_that_is_sent() -> None:
    bench = Front(3)
    proxy = bench.come()
    place = bench.happened(Dispatch)[0].replica
    assert proxy.endpoints[0] == WHERE[place] and len(proxy.endpoints) == 2
    proxy.proxied.answered(200, SSE, proxy.endpoints[0])
    assert not bench.happened(FirstToken)
    proxy.proxied.passes(b"data: {}\n\n")
    assert [each.replica for each in bench.happened(FirstToken)] == [place]
    proxy.proxied.passes(b'data: {"usage":{"prompt_tokens":7,"completion_tokens": 3}}\n\ndata: [DONE]\n\n')
    proxy.proxied.passed()
    proxy.passage.over()
    assert [each.output_tokens for each in bench.happened(Finished)] == [3]
    assert bench.statuses == [200] and not bench.happened(Cancelled)
    bench.check_balance()


def test_what_the_proxy_narrowed_is_recorded_and_replays() -> None:
    bench = Front(3, Fallback(LeastRequests(), 2), admission=[Subset()])
    for reach in ({WHERE[2], WHERE[1], "10.9.9.9:1"}, {WHERE[2]}, None):
        _answer(bench.come(subset=None if reach is None else frozenset(reach)))
    assert [(each.request, each.replicas) for each in bench.happened(Restricted)] == [(0, (1, 2)), (1, (2,))]
    bench.trace.header |= header(
        bench.control.state.replicas, Belief(), {"router": {"least_requests": {}}},
        resume=False, tries=2, fallbacks=2,
    )  # fmt: skip
    pairs = list(replayed(bench.trace))
    assert all(was == now for was, now in pairs) and any(was for was, _ in pairs)
    bench.check_balance()


def test_the_books_follow_the_proxy_to_the_engine_that_answers() -> None:
    bench = Front(3, Fallback(LeastRequests(), 2))
    proxy = bench.come()
    _answer(proxy, served=proxy.endpoints[2])
    assert [WHERE[each.replica] for each in bench.happened(Dispatch)] == proxy.endpoints
    assert [WHERE[each.replica] for each in bench.happened(Refused)] == proxy.endpoints[:2]
    assert [WHERE[each.replica] for each in bench.happened(FirstToken)] == proxy.endpoints[2:]
    assert [name for name, kind, well in bench.notes if not well] == [
        f"e{WHERE.index(each)}" for each in proxy.endpoints[:2]
    ]
    bench.check_balance()


def test_an_answer_from_nowhere_is_load_of_no_replica() -> None:
    bench = Front(2)
    proxy = bench.come()
    proxy.proxied.answered(200, SSE, "10.9.9.9:1")
    assert bench.statuses == [200] and not bench.control.flights and not bench.control.held
    proxy.proxied.passes(b"data: {}\n\n")
    proxy.proxied.passed()
    proxy.passage.over()
    assert not bench.happened(Finished, FirstToken) and proxy.refusal is None
    bench.check_balance()


def test_a_silent_proxy_is_taken_to_have_followed_the_decision() -> None:
    bench = Front(2)
    proxy = bench.come()
    _answer(proxy)
    assert len(bench.happened(Dispatch)) == len(bench.happened(Finished)) == 1
    bench.check_balance()


@pytest.mark.parametrize("status", [400, 429, 503])
def test_an_engines_error_passes_and_ends_the_request(status: int) -> None:
    bench = Front(3, tries=3)
    proxy = bench.come()
    _answer(proxy, status=status)
    assert proxy.refusal is None, "its client has the engine's own words"
    assert bench.statuses == [status]
    bench.check_balance()


def test_who_waits_is_routed_when_there_is_room() -> None:
    bench = Front(1, admission=[Ceiling(1)])
    first, second = bench.come(), bench.come()
    assert first.endpoints and not second.endpoints
    _answer(first)
    assert second.endpoints == [WHERE[0]]
    _answer(second)
    bench.check_balance()


def test_who_waits_too_long_is_answered() -> None:
    bench = Front(1, admission=[Ceiling(1)], settings=Settings(held_s=3))
    first, second = bench.come(), bench.come()
    bench.pass_s(4)
    assert second.refusal is not None and second.refusal[0] == 503
    assert b"retry-after" in second.refusal[1]
    second.passage.over()
    _answer(first)
    bench.check_balance()


def test_who_leaves_is_forgotten_wherever_it_is() -> None:
    bench = Front(1, admission=[Ceiling(1)])
    first, second, third = bench.come(), bench.come(), bench.come()
    second.passage.over()
    first.proxied.answered(200, SSE, "")
    first.proxied.passes(b"data: {}\n\n")
    first.passage.over()
    third.passage.over()
    assert [each.request for each in bench.happened(Cancelled)] == [1, 0, 2]
    bench.check_balance()


def test_a_refusal_of_the_desk_is_an_answer() -> None:
    bench = Front(1)
    proxy = FakeProxy()
    ExtProcRequest(proxy, "POST", b"/v1/completions", [], b"{", 1).ask(bench.api)
    assert proxy.refusal is not None and proxy.refusal[0] == 400
    assert proxy.refusal[1][b"content-type"] == b"application/json"


def test_the_engines_own_key_goes_along() -> None:
    bench = Front(0, slots=1)
    engine = bench.world.fleet.add(EngineAt(Place("e", "10.0.0.0", 8000), api_key="secret"))
    assert engine is not None
    bench.world.fleet.join(engine, ReplicaSpec())
    assert bench.come().headers == {b"authorization": b"Bearer secret"}


def test_an_engine_below_a_path_is_called_there() -> None:
    bench = Front(0, slots=1)
    engine = bench.world.fleet.add(EngineAt(Place("e", "10.0.0.0", 8000, path="/llm")))
    assert engine is not None
    bench.world.fleet.join(engine, ReplicaSpec())
    assert bench.come().headers == {b":path": b"/llm/v1/completions"}


class Pairs:
    needs: tuple[str, ...] = ()

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route | Hold:
        return Route(0, decode=1) if cluster.stage == "serve" else Route(1)


def test_a_pair_is_the_decode_engine_and_a_header_for_its_sidecar() -> None:
    bench = Front(0, Pairs(), slots=2)
    for number, role in enumerate(("prefill", "decode")):
        at = EngineAt(Place(role, f"10.0.0.{number}", 8000), role=role)  # type: ignore[arg-type]
        engine = bench.world.fleet.add(at)
        assert engine is not None
        bench.world.fleet.join(engine, ReplicaSpec(role=role))  # type: ignore[arg-type]
    proxy = bench.come()
    assert proxy.endpoints == [WHERE[1]] and proxy.headers == {b"x-prefiller-host-port": WHERE[0].encode()}
    _answer(proxy, WHERE[1])
    assert [(type(each), each.replica) for each in bench.happened(Prefilled, FirstToken)] == [
        (Prefilled, 0), (FirstToken, 1),
    ]  # fmt: skip
    bench.check_balance()


def test_a_subset_binds_and_is_forgotten() -> None:
    bench = Front(3, admission=[Subset()])
    for number in (2, 0, 2):
        proxy = bench.come(subset=frozenset({WHERE[number], "10.9.9.9:1"}))
        assert proxy.endpoints == [WHERE[number]]
        _answer(proxy, WHERE[number])
    unmatched = bench.come(subset=frozenset({"10.9.9.9:1"}))
    assert unmatched.refusal is not None and unmatched.refusal[0] == 503
    assert not bench.control.admission[0]._reach  # type: ignore[attr-defined]
    bench.check_balance()


def test_a_subset_that_no_engine_matches_is_not_passed_over() -> None:
    proxy = Front(1).come(subset=frozenset({WHERE[0]}))
    assert proxy.refusal is not None and proxy.refusal[0] == 500


def test_an_engine_that_is_lost_takes_its_answers_with_it() -> None:
    bench = Front(2)
    waiting, answering = bench.come(), bench.come()
    place = WHERE.index(answering.endpoints[0])
    answering.proxied.answered(200, SSE, "")
    answering.proxied.passes(b"data: {}\n\n")
    bench.lose(place)
    assert answering.was_cut and [each.replica for each in bench.happened(Failed)] == [place]
    bench.world.fleet.eject(bench.engines[place - 1])
    bench.world.fleet.join(bench.engines[place], ReplicaSpec())
    bench.world.fleet.eject(bench.engines[place])
    bench.lose(place - 1)
    assert len(bench.control.held) == 1, "Control would send it anew, but the proxy has it"
    waiting.proxied.answered(200, SSE, waiting.endpoints[0])
    assert [each.request for each in bench.happened(Cancelled)] == [waiting.proxied.view.id]
    assert bench.statuses == [502, 200] and not bench.control.held
    waiting.proxied.passes(b"data: {}\n\n")
    waiting.passage.over()
    answering.passage.over()
    bench.check_balance()


def test_with_all_engines_lost_who_waits_for_one_is_answered() -> None:
    bench = Front(2)
    proxy = bench.come()
    bench.lose(0)
    bench.lose(1)
    assert proxy.refusal is not None and proxy.refusal[0] == 503
    proxy.passage.over()
    bench.check_balance()


def test_endpoints_are_written_as_envoy_does() -> None:
    assert endpoint(Place("e", "10.0.0.1", 80)) == "10.0.0.1:80"
    assert endpoint(Place("e", "fd00::1", 8000)) == "[fd00::1]:8000"


steps = st.lists(
    st.tuples(
        st.sampled_from(["come", "head", "data", "end", "over", "wait", "eject", "join", "lose", "status"]),
        st.integers(0, 11),
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(steps, st.integers(1, 3), st.integers(0, 2), st.integers(1, 3))
def test_whatever_the_proxy_does_the_books_balance(
    script: list[tuple[str, int]], engines: int, ceiling: int, tries: int
) -> None:
    """And the record, replayed to a control alone, gives the same actions."""
    admission: list[Admission] = [Ceiling(ceiling)] if ceiling else []
    bench = Front(engines, admission=admission, tries=tries, settings=Settings(held_s=3))
    proxies: list[FakeProxy] = []
    heads: set[int] = set()

    def head(proxy: FakeProxy, status: int, served: str) -> None:
        if id(proxy) not in heads and proxy.endpoints:
            heads.add(id(proxy))
            proxy.proxied.answered(status, JSON, served)

    for what, number in script:
        proxy = proxies[number % len(proxies)] if proxies else None
        engine = bench.engines[number % engines]
        if what == "come":
            proxies.append(bench.come(stream=number % 2 == 0))
        elif what == "wait":
            bench.pass_s(number)
        elif what == "eject":
            bench.world.fleet.eject(engine)
        elif what == "join":
            bench.world.fleet.join(engine, engine.spec)
        elif what == "lose":
            bench.lose(engine.slot)
        elif proxy is None or not proxy.endpoints:
            continue
        elif what == "over":
            proxy.passage.over()
            proxies.remove(proxy)
        elif what == "status":
            head(proxy, [400, 429, 500, 503][number % 4], "")
            proxy.proxied.passed()
        else:
            head(proxy, 200, ["", *WHERE][number % 5])
            if what == "data":
                proxy.proxied.passes(b"data: x\n\n")
            elif what == "end":
                proxy.proxied.passed()
    for proxy in proxies:
        proxy.passage.over()
    bench.check_balance()
    fresh = Front(0, admission=admission, tries=tries, slots=engines)
    assert replay(bench.trace.events, fresh.control) == list(bench.trace.actions)
