"""Llumnix: freeness at dispatch, and who moves where."""

from __future__ import annotations

from typing import Any

import pytest

import poise as ps
from poise.core.action import Move, Route
from poise.core.units import SECOND
from poise.policies.route.llumnix import Llumnix
from poise.testing import a_chance, a_cluster, a_flight, a_replica, a_request
from poise.testing.columns import ReplicaColumns


def running(*requests: Any, since: int = 0) -> tuple[Any, ...]:
    return tuple(a_flight(request, first_token_at=since) for request in requests)


def crowded(*prompts: int, free: int = 2, first: int = 0, **more: Any) -> ReplicaColumns:
    """A replica whose requests decode, with ids from `first` on."""
    flights = running(*(a_request(id=first + place, prompt_tokens=each) for place, each in enumerate(prompts)))
    return a_replica(free_blocks=free, running=len(prompts), flights=flights, **more)


def free(blocks: int = 500, **more: Any) -> ReplicaColumns:
    return a_replica(free_blocks=blocks, **more)


@pytest.mark.parametrize(
    ("replicas", "chosen"),
    [
        ([a_replica(free_blocks=100, running=2), a_replica(free_blocks=120, running=4)], 0),
        ([a_replica(free_blocks=100, running=2, waiting=2), a_replica(free_blocks=120, running=4)], 1),
        ([a_replica(free_blocks=100, running=2, queued_tokens=1600), a_replica(free_blocks=9, running=4)], 1),
        ([a_replica(free_blocks=0, running=9), a_replica(free_blocks=-3, running=1)], 0),
    ],
)
def test_dispatch_goes_to_the_most_blocks_for_each_request(replicas: list[ReplicaColumns], chosen: int) -> None:
    assert Llumnix().route(a_request(), a_cluster(*replicas), a_chance()) == Route(chosen)


def test_headroom_keeps_others_away_from_a_high_priority_request() -> None:
    vip = running(a_request(id=7, priority=-1))
    cluster = a_cluster(a_replica(free_blocks=500, running=1, flights=vip), a_replica(free_blocks=300, running=1))
    assert Llumnix().route(a_request(), cluster, a_chance()) == Route(0)
    assert Llumnix(headroom=300).route(a_request(), cluster, a_chance()) == Route(1)


def test_the_lowest_sends_its_shortest_to_the_highest() -> None:
    cluster = a_cluster(crowded(900, 300, 600), free(400), free(800), crowded(50, free=-1, first=10))
    assert list(Llumnix().move(cluster)) == [Move(10, 3, 2), Move(1, 0, 1)]


def test_low_priority_goes_first() -> None:
    flights = running(a_request(id=1, prompt_tokens=100, priority=0), a_request(id=2, prompt_tokens=900, priority=3))
    cluster = a_cluster(a_replica(free_blocks=1, running=2, flights=flights), free())
    assert list(Llumnix().move(cluster)) == [Move(2, 0, 1)]


def test_output_made_so_far_is_guessed_from_time() -> None:
    old, young = a_request(id=1, prompt_tokens=100), a_request(id=2, prompt_tokens=150)
    flights = (*running(old, since=0), *running(young, since=9 * SECOND))
    cluster = a_cluster(a_replica(free_blocks=1, running=2, flights=flights), free(), now=10 * SECOND)
    assert list(Llumnix().move(cluster)) == [Move(2, 0, 1)]


@pytest.mark.parametrize(
    "replicas",
    [
        [crowded(100, 100, free=6), free()],  # 3 blocks for each request: not below
        [crowded(100, 100), free(2, running=1)],  # nobody is above
        [crowded(8000, free=1), free(400)],  # it does not fit there
        [crowded(800, free=1), free(60)],  # it would only turn the gap round
        [a_replica(free_blocks=0, running=1, flights=(a_flight(a_request()),)), free()],  # no first token yet
        [crowded(100), free(role="decode")],  # no peer
    ],
)
def test_nothing_moves(replicas: list[ReplicaColumns]) -> None:
    assert list(Llumnix().move(a_cluster(*replicas))) == []


def test_one_at_a_time_at_both_ends() -> None:
    moving = (a_flight(a_request(id=5), first_token_at=0, target=1),)
    both = (*moving, *running(a_request(id=6)))
    cluster = a_cluster(a_replica(free_blocks=0, running=2, flights=both), free(), crowded(64, first=20))
    assert list(Llumnix().move(cluster)) == []


def test_a_draining_replica_gives_everything_away_however_free_it_is() -> None:
    cluster = a_cluster(crowded(100, free=900, able=False), free(), free(700))
    assert list(Llumnix().move(cluster)) == [Move(0, 0, 2)]


def test_migration_can_be_left_off() -> None:
    cluster = a_cluster(crowded(900, 300, 600), free(400))
    assert list(Llumnix(migrate=False).move(cluster)) == []


def test_migration_spares_preemptions() -> None:
    """Small KV caches and lengths that nobody knows: who can move need not be preempted."""
    engine = ps.Engine(kv_blocks=400, prefix_caching=False)
    cluster = ps.Cluster.of("A10", count=4).replicas(4, model="llama-2-7b", engine=engine)
    workload = ps.workload.poisson(
        1.8, requests=400, prompt_tokens=300, output_tokens={"uniform": {"low": 10, "high": 900}}
    )
    belief = ps.Belief(period_s=0.1, delay_s=0.0)
    runs = [
        ps.simulate(cluster, workload, ps.Policies(router=Llumnix(migrate=migrate)), belief=belief)
        for migrate in (False, True)
    ]
    still, moved = (run.metrics() for run in runs)
    assert still.migrations == 0 < moved.migrations
    assert moved.preemptions < still.preemptions
