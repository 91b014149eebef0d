"""The less loaded of two drawn at random: how often each rank wins, and what the second draw is worth."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.control.state import State
from poise.core.errors import ScenarioError
from poise.core.spec import Belief, ReplicaSpec
from poise.policies.find import build
from poise.policies.route.power_of_two import PowerOfTwo
from poise.testing import a_chance, a_cluster, a_replica, a_request, check_router


def shares(router: PowerOfTwo, loads: list[int], draws: int = 6000) -> list[float]:
    cluster = a_cluster(*[a_replica(requests=load) for load in loads])
    counts = Counter(router.route(a_request(id=key), cluster, a_chance(key=key)).replica for key in range(draws))
    return [counts[number] / draws for number in range(len(loads))]


@pytest.mark.parametrize("choices", [1, 2, 3, 4, 6])
def test_each_rank_wins_as_often_as_it_is_the_least_of_those_drawn(choices: int) -> None:
    loads = [3, 0, 4, 1, 2]
    sets = list(combinations(range(5), min(choices, 5)))
    for number, share in enumerate(shares(PowerOfTwo(choices), loads)):
        expected = sum(number == min(drawn, key=loads.__getitem__) for drawn in sets) / len(sets)
        assert abs(share - expected) < 0.03


def test_equals_share_alike() -> None:
    assert all(abs(share - 0.25) < 0.03 for share in shares(PowerOfTwo(), [5, 5, 5, 5]))


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=1, max_size=8).filter(
        lambda each: any(able for able, _ in each)
    ),
    st.integers(1, 4),
    st.integers(0, 99),
)
def test_only_the_able_are_drawn_and_never_the_busiest_of_more_than_one(
    replicas: list[tuple[bool, int]], choices: int, key: int
) -> None:
    cluster = a_cluster(*[a_replica(able=able, requests=load) for able, load in replicas])
    number = PowerOfTwo(choices).route(a_request(id=key), cluster, a_chance(key=key)).replica
    able = [load for able, load in replicas if able]
    assert replicas[number][0]
    assert sum(load >= replicas[number][1] for load in able) >= min(choices, len(able))


def test_it_reads_the_column_that_it_is_given() -> None:
    cluster = a_cluster(a_replica(tokens=9), a_replica(tokens=1, requests=8), needs=["tokens"])
    assert PowerOfTwo(load="tokens").route(a_request(), cluster, a_chance()).replica == 1
    check_router(lambda: PowerOfTwo(3, "queued_tokens"))


def longest_queue(choices: int) -> int:
    """Balls into bins: the fullest of 400 replicas after 400 requests that stay."""
    state = State([ReplicaSpec()] * 400, Belief(), ["requests"])
    for key in range(400):
        request = a_request(id=key)
        state.sent(0, request, PowerOfTwo(choices).route(request, state, a_chance(key=key)).replica)
    return max(state.requests)


def test_a_second_choice_shortens_the_longest_queue() -> None:
    """n balls in n bins, n = 400: about ln n / ln ln n = 3.3, in practice 4 to 7, against ln ln n / ln 2 + 1 = 3.6."""
    assert longest_queue(1) >= 4
    assert longest_queue(2) <= 3


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"choices": 0}, "choices 0 is below 1; draw at least one"), ({"load": "heat"}, "'heat' is no load; give one of")],
)
def test_errors_name_the_cure(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        build("router", "power_of_two", parameters)
