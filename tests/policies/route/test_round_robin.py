"""Round robin over able sets that change, against a pointer that walks the circle."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from poise.policies.route.round_robin import RoundRobin
from poise.testing import a_chance, a_cluster, a_replica, a_request

ables = st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=30)


@given(ables, st.lists(st.integers(0, 1), min_size=30, max_size=30))
def test_it_walks_the_circle_for_each_model_apart(ables: list[set[int]], models: list[int]) -> None:
    router = RoundRobin()
    last = {0: -1, 1: -1}
    for able, model in zip(ables, models, strict=False):
        cluster = a_cluster(*[a_replica(able=number in able) for number in range(6)])
        place = (last[model] + 1) % 6
        while place not in able:
            place = (place + 1) % 6
        last[model] = place
        assert router.route(a_request(model=model), cluster, a_chance()).replica == place


def test_counts_differ_by_one_at_most_while_no_engine_comes_or_goes() -> None:
    router = RoundRobin()
    cluster = a_cluster(*[a_replica(able=number != 2) for number in range(5)])
    counts = Counter(router.route(a_request(id=number), cluster, a_chance()).replica for number in range(42))
    assert set(counts) == {0, 1, 3, 4}
    assert max(counts.values()) - min(counts.values()) <= 1
