"""SAGA's routing: home while it has room, and sessions stolen by who idles."""

from __future__ import annotations

from typing import Any

import pytest

from poise.core.action import Move
from poise.core.units import SECOND
from poise.policies.route.saga import Saga
from poise.testing import a_chance, a_cluster, a_flight, a_replica, a_request, check_router
from poise.testing.columns import ClusterColumns

NEEDS = ("tokens", "requests", "flights")


def route(router: Saga, session: int, *tokens: int) -> int:
    """Where a request goes, of replicas of 16,000 tokens with so many in use."""
    cluster = a_cluster(*[a_replica(tokens=each) for each in tokens], needs=NEEDS)
    return router.route(a_request(session=session), cluster, a_chance()).replica


def test_a_session_stays_until_its_home_is_full() -> None:
    router = Saga()
    assert route(router, 1, 9000, 100, 5000) == 1
    assert route(router, 1, 0, 12_700, 5000) == 1, "home is at 79 %"
    assert route(router, 1, 300, 12_900, 0) == 2, "home is at 81 %"
    assert route(router, 1, 0, 0, 12_000) == 2, "and that is its home now"
    assert route(router, -1, 300, 12_900, 0) == 2
    assert route(router, 2, 0, 12_900, 300) == 0


def busy(*flights: Any) -> ClusterColumns:
    """A replica with these requests, one with little, and one that idles."""
    tokens = sum(flight.request.prompt_tokens for flight in flights)
    return a_cluster(
        a_replica(requests=len(flights), tokens=tokens, flights=flights), a_replica(requests=1, tokens=100),
        a_replica(), needs=NEEDS,
    )  # fmt: skip


def at(cluster: ClusterColumns, now: int) -> ClusterColumns:
    cluster.now = now
    return cluster


def test_who_idled_for_long_enough_takes_the_last_that_waits_and_its_home() -> None:
    router = Saga()
    flights = [a_flight(a_request(id=number, session=number, prompt_tokens=3000)) for number in range(3)]
    cluster = busy(*flights[:2], flights[2])
    assert router.move(at(cluster, 0)) == []
    assert router.move(at(cluster, SECOND // 20)) == [], "it has idled for 50 ms only"
    assert router.move(at(cluster, SECOND // 5)) == [Move(2, 0, 2)]
    assert route(router, 2, 0, 0, 9000) == 2, "home is where it was taken to"


def test_no_decoding_request_is_stolen_nor_from_a_replica_that_has_little() -> None:
    decoding = a_flight(a_request(session=1, prompt_tokens=9000), first_token_at=5)
    router = Saga(idle_s=0.0)
    assert router.move(busy(decoding)) == []
    even = a_cluster(
        *[a_replica(requests=1, tokens=1000, flights=(a_flight(a_request()),))] * 2, a_replica(), needs=NEEDS
    )
    assert router.move(even) == [], "1.5 times the mean"
    assert Saga(steal=0.0).move(even) == ()


def test_is_a_router() -> None:
    check_router(Saga)


@pytest.mark.parametrize("wrong", [{"full": 0.0}, {"steal": 0.5}, {"idle_s": -1.0}, {"block_tokens": 0}])
def test_parameters_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is"):
        Saga(**wrong)  # type: ignore[arg-type]


def test_places_without_an_engine_make_no_replica_look_full() -> None:
    """A gateway has more slots than engines; those idle for ever, and are no part of the mean."""
    flight = a_flight(a_request(session=1, prompt_tokens=1000))
    loaded = a_replica(requests=1, tokens=1000, flights=(flight,))
    spare = [a_replica(able=False)] * 6
    other = a_replica(requests=1, tokens=800, flights=(a_flight(a_request(id=1)),))
    assert Saga(idle_s=0.0).move(a_cluster(loaded, other, a_replica(), *spare, needs=NEEDS)) == []
    assert Saga(idle_s=0.0).move(a_cluster(loaded, a_replica(), *spare, needs=NEEDS)) == [Move(0, 0, 1)]


def test_a_home_that_does_not_tell_its_kv_is_never_full() -> None:
    router = Saga()
    unreported = [a_replica(tokens=each, total_blocks=0) for each in (9000, 100, 5000)]
    for tokens in (100, 90_000):
        unreported[1] = a_replica(tokens=tokens, total_blocks=0)
        assert router.route(a_request(session=1), a_cluster(*unreported, needs=NEEDS), a_chance()).replica == 1
