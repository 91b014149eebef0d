"""The two balancers of the thesis: one search over all, and agents that ask."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import poise as ps
from poise.core.action import Move
from poise.core.units import SECOND
from poise.policies.kit.loads import Loads, kv_tokens
from poise.policies.move.central_search import CentralSearch
from poise.policies.move.negotiation import Negotiation
from poise.policies.route.random_choice import RandomChoice
from poise.testing import a_cluster, a_flight, a_replica, a_request
from poise.testing.columns import ClusterColumns

MOVERS = (CentralSearch, Negotiation)


def cluster_of(*prompts: tuple[int, ...], **more: Any) -> ClusterColumns:
    """A replica of 16,000 tokens for each tuple of the prompts of its requests, which do not decode yet."""
    replicas, first = [], 0
    for each in prompts:
        flights = tuple(a_flight(a_request(id=first + at, prompt_tokens=size)) for at, size in enumerate(each))
        replicas.append(a_replica(flights=flights))
        first += len(each)
    return a_cluster(*replicas, needs=("flights",), **more)


def spread(loads: Loads) -> float:
    return sum(share * share for share in loads.share)


def after(moves: Any, cluster: ClusterColumns) -> tuple[Loads, Loads]:
    """The loads before and after the moves."""
    before, now = (Loads(cluster, 16, 0.03) for _ in range(2))
    for move in moves:
        flight = next(each for each in cluster.flights(move.source) if each.request.id == move.request)
        now.move(flight, move.source, move.target)
    return before, now


def test_a_request_grows_with_the_time_since_its_first_token() -> None:
    flight = a_flight(a_request(prompt_tokens=50), first_token_at=SECOND)
    assert kv_tokens(flight, 4 * SECOND, 0.03) == 150
    assert kv_tokens(a_flight(a_request(prompt_tokens=50)), 4 * SECOND, 0.03) == 50


@pytest.mark.parametrize("mover", MOVERS)
def test_even_loads_stay(mover: Any) -> None:
    assert list(mover().move(cluster_of((400, 100), (500,), (100, 100, 300)))) == []


@pytest.mark.parametrize("mover", MOVERS)
def test_the_fullest_gives_to_the_emptiest_what_evens_them_best(mover: Any) -> None:
    # 1600 against 0: moving 700 leaves 900² + 700², the least of all single moves.
    assert next(iter(mover().move(cluster_of((300, 700, 600), ())))) == Move(1, 0, 1)


@pytest.mark.parametrize("mover", MOVERS)
def test_copying_that_costs_more_than_it_evens_out_is_left(mover: Any) -> None:
    flights = tuple(a_flight(a_request(id=at, prompt_tokens=800), first_token_at=0) for at in range(2))
    cluster = a_cluster(a_replica(flights=flights), a_replica(), kv_rate=800.0)  # a second each
    assert list(mover(second=0.0).move(cluster)) == [Move(0, 0, 1)]
    assert list(mover(second=3.0).move(cluster)) == []


@pytest.mark.parametrize("mover", MOVERS)
def test_what_is_on_its_way_is_left_alone(mover: Any) -> None:
    flights = (a_flight(a_request(id=1, prompt_tokens=900), target=1),)
    assert list(mover().move(a_cluster(a_replica(flights=flights), a_replica()))) == []


def test_the_search_keeps_to_its_budget_and_takes_the_best_first() -> None:
    cluster = cluster_of((1000,) * 8, (), (100,) * 8, ())  # 8000, 0, 800, 0
    moves = CentralSearch(budget=3).move(cluster)
    assert [(move.source, move.target) for move in moves] == [(0, 1), (0, 3), (0, 2)]


def test_agents_send_messages_in_proportion_to_those_they_ask() -> None:
    cluster = cluster_of(*((100 * at,) * 2 for at in range(1, 21)))
    mover = Negotiation(asks=3)
    moves = mover.move(cluster)
    assert 20 * 2 * 3 + 2 * len(moves) <= mover.messages <= 20 * 2 * (3 + 3)


prompts = st.lists(st.lists(st.integers(1, 2000), max_size=5).map(tuple), min_size=2, max_size=6)


@pytest.mark.parametrize("mover", MOVERS)
@given(sizes=prompts)
def test_moves_never_make_loads_less_even_and_never_repeat_a_request(mover: Any, sizes: Any) -> None:
    cluster = cluster_of(*sizes)
    policy = mover()
    again = copy.deepcopy(policy)
    moves = list(policy.move(cluster))
    before, now = after(moves, cluster)
    assert spread(now) <= spread(before) + 1e-12
    assert len({move.request for move in moves}) == len(moves)
    assert all(share >= -1e-12 for share in now.share)
    assert list(again.move(cluster)) == moves  # a copy does the same


@given(sizes=prompts)
def test_the_search_stops_where_no_single_move_gains(sizes: Any) -> None:
    cluster = cluster_of(*sizes)
    mover = CentralSearch(budget=1000)
    moves = mover.move(cluster)
    _, now = after(moves, cluster)
    moved = {move.request for move in moves}
    for source in range(len(sizes)):
        for flight in cluster.flights(source):
            for target in range(len(sizes)):
                if flight.request.id not in moved and target != source:
                    assert now_gain(now, flight, source, target) <= mover.least + 1e-12


def now_gain(loads: Loads, flight: Any, source: int, target: int) -> float:
    return loads.gain(flight, source, target, 1.0)


@pytest.mark.parametrize("mover", MOVERS)
def test_both_even_out_what_a_blind_router_left_uneven(mover: Any) -> None:
    cluster = ps.Cluster.of("A100", count=4).replicas(4, model="llama-3.1-8b")
    lengths = {"prompt_tokens": ps.workload.lognormal(800, 2.0), "output_tokens": ps.workload.lognormal(300, 1.5)}
    load = ps.workload.poisson(12.0, requests=600, seed=3, **lengths)  # type: ignore[arg-type]

    def unevenness(policies: ps.Policies) -> tuple[float, int]:
        run = ps.simulate(cluster, load, policies, belief=ps.Belief(period_s=0.5), sample_s=0.5).run
        running: dict[int, list[int]] = {}
        for at, _, _, _, used in run.samples:
            running.setdefault(at, []).append(used)
        gaps = [max(each) - min(each) for each in running.values() if len(each) == 4]
        return sum(gaps) / len(gaps), sum(run.records.migrations)

    still, none = unevenness(ps.Policies(router=RandomChoice()))
    moved, some = unevenness(ps.Policies(router=RandomChoice(), mover=mover()))
    assert none == 0 and some > 0
    assert moved < 0.8 * still
