"""Hedged requests live: the first byte of a good answer wins, the other engine is stopped, the client sees one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.live.gateway.proxied_request import ProxiedRequest
from tests.live.gateway.fakes import JSON, Bench, FakeCall, Wire


class AfterOneSecond:
    """A copy goes to the first that is able."""

    needs = ("requests",)

    def wait(self, request: RequestView, replica: int, cluster: ClusterView) -> int:
        return 10**12

    def hedge(
        self, request: RequestView, replica: int, able: Sequence[int], cluster: ClusterView, chance: Chance
    ) -> int | None:
        return able[0]


def hedged(stream: bool = True, engines: int = 2) -> tuple[Bench, Wire, ProxiedRequest, FakeCall, FakeCall]:
    """A request that two engines have."""
    bench = Bench(engines, hedge=AfterOneSecond())
    wire, _, proxied = bench.ask(stream=stream)
    (first,) = bench.calls
    bench.pass_s(1)
    (second,) = [call for call in bench.calls if call is not first]
    assert second.body == first.body and second.target == first.target
    assert sum(bench.control.state.requests) == 2
    return bench, wire, proxied, first, second


def whole(bench: Bench, wire: Wire) -> None:
    assert wire.done and wire.status == 200 and wire.body.count(b"data: x") == 1
    assert bench.statuses == [200]
    bench.check_balance()
    assert not bench.calls


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wins", [0, 1])
def test_the_first_byte_decides(stream: bool, wins: int) -> None:
    bench, wire, proxied, *calls = hedged(stream)
    winner, loser = calls[wins], calls[1 - wins]
    loser.head()
    winner.head()
    assert not loser.cancelled and not wire.sent, "a head without a body does not bind"
    winner.data(b"data: x\n\n")
    assert loser.cancelled and proxied.engine is not None and proxied.engine.pool is winner.pool
    assert sum(bench.control.state.requests) == 1
    winner.end()
    whole(bench, wire)
    engine = bench.engines[bench.engines.index(proxied.engine)]
    assert (engine.hedges, engine.hedges_won) == (wins, wins)


@pytest.mark.parametrize("drops", [0, 1])
@pytest.mark.parametrize("how", ["reset", "timeout", "429", "500", "400", "flood"])
def test_one_that_fails_is_not_the_clients_matter(drops: int, how: str) -> None:
    bench, wire, _, *calls = hedged()
    bad, good = calls[drops], calls[1 - drops]
    if how.isdigit():
        bad.answer(b"{}", int(how))
    elif how == "flood":
        bad.head(500)
        bad.data(b"x" * (bench.world.settings.error_bytes + 1))
        assert bad.cancelled
    else:
        bad.fail(how)  # type: ignore[arg-type]
    assert not wire.sent and not good.cancelled and sum(bench.control.state.requests) == 1
    good.head()
    good.data(b"data: x\n\n")
    good.end()
    whole(bench, wire)


def test_both_fail_and_a_third_is_tried() -> None:
    bench = Bench(3, hedge=AfterOneSecond(), tries=3)
    wire, _, _ = bench.ask()
    bench.pass_s(1)
    for call in bench.calls:
        call.fail()
    (third,) = bench.calls
    third.head()
    third.data(b"data: x\n\n")
    third.end()
    whole(bench, wire)


def test_both_refuse_and_the_last_ones_words_are_passed_on() -> None:
    bench, wire, _, first, second = hedged()
    first.answer(b'{"error":1}', 400)
    second.answer(b'{"error":2}', 422)
    assert (wire.status, wire.body) == (422, b'{"error":2}') and bench.statuses == [422]
    bench.check_balance()


@pytest.mark.parametrize("drops", [0, 1])
def test_a_stale_connection_is_no_failure(drops: int) -> None:
    bench, wire, _, *calls = hedged()
    calls[drops].fail("stale")
    (other,) = bench.calls
    assert other is calls[1 - drops], "the copy that is left is enough"
    other.head()
    other.data(b"data: x\n\n")
    other.end()
    whole(bench, wire)


def test_a_client_that_leaves_stops_both() -> None:
    bench, _, _, first, second = hedged()
    first.head()
    trip_exchange = next(iter(bench.world.proxied_requests.values())).exchange
    trip_exchange.leave()
    assert first.cancelled and second.cancelled and bench.statuses == [499]
    bench.check_balance()


def test_giving_up_stops_both() -> None:
    bench, wire, _, first, second = hedged()
    bench.world.end_all("the gateway goes down")
    assert first.cancelled and second.cancelled and wire.status == 503
    bench.check_balance()


def test_a_slow_client_slows_the_copy_that_won() -> None:
    bench, wire, proxied, first, second = hedged()
    proxied.flow(False)
    assert first.paused
    second.head()
    second.data(b"data: x\n\n")
    assert second.paused
    proxied.flow(True)
    assert not second.paused
    second.end()
    whole(bench, wire)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_engine_takes_one_copy_with_it(lost: int) -> None:
    bench, wire, proxied, *calls = hedged()
    engine = next(engine for engine in bench.engines if engine.pool is calls[lost].pool)
    assert bench.world.on(engine.slot) == [proxied]
    from poise.live.http.call import Failure

    proxied.lost(engine.slot, Failure("reset", "the engine is gone", False))
    bench.world.fleet.lose(engine)
    assert calls[lost].cancelled and not calls[1 - lost].cancelled and bench.world.on(engine.slot) == []
    calls[1 - lost].head()
    calls[1 - lost].data(b"data: x\n\n")
    calls[1 - lost].end()
    whole(bench, wire)


def test_a_draining_engine_waits_for_its_copy() -> None:
    bench, wire, _, first, second = hedged()
    engine = next(engine for engine in bench.engines if engine.pool is second.pool)
    bench.world.fleet.remove(engine)
    assert bench.world.fleet.slots[engine.slot] is engine
    first.head()
    first.data(b"data: x\n\n")
    first.end()
    whole(bench, wire)
    bench.world.sweep()
    assert bench.world.fleet.slots[engine.slot] is None


def test_a_whole_answer_under_way_is_not_hedged() -> None:
    """Its first byte is told as soon as somebody wants a copy, and the copy never goes out."""
    bench = Bench(2, hedge=AfterOneSecond())
    wire, _, _ = bench.ask(stream=False)
    (call,) = bench.calls
    call.head(200, JSON)
    call.data(b"data: x")
    bench.pass_s(1)
    assert bench.calls == [call] and sum(bench.control.state.requests) == 1
    call.end()
    whole(bench, wire)
