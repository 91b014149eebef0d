"""Random choice: equal shares of who is able, the same draw for the same request, pairs drawn apart."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from poise.policies.route.random_choice import RandomChoice
from poise.testing import a_chance, a_cluster, a_replica, a_request


def chosen(*able: bool, key: int = 0, seed: int = 0) -> int:
    cluster = a_cluster(*[a_replica(able=each, requests=number) for number, each in enumerate(able)], needs=())
    return RandomChoice().route(a_request(id=key), cluster, a_chance(seed, key)).replica


@given(st.lists(st.booleans(), min_size=1, max_size=9).filter(any), st.integers(0, 99), st.integers(0, 9))
def test_only_the_able_are_drawn_and_the_same_request_draws_the_same(able: list[bool], key: int, seed: int) -> None:
    assert able[chosen(*able, key=key, seed=seed)]
    assert chosen(*able, key=key, seed=seed) == chosen(*able, key=key, seed=seed)


def test_each_able_replica_gets_its_share_whatever_its_load() -> None:
    counts = Counter(chosen(True, False, True, True, True, key=key) for key in range(4000))
    assert set(counts) == {0, 2, 3, 4}
    assert all(abs(count - 1000) < 5 * 1000**0.5 for count in counts.values())


def test_the_halves_of_a_pair_are_drawn_apart() -> None:
    pairs = [a_replica(role=role) for role in ("prefill", "prefill", "decode", "decode")]
    seen = Counter(
        tuple(
            RandomChoice().route(a_request(id=key), a_cluster(*pairs, stage=stage), a_chance(key=key)).replica
            for stage in ("serve", "decode")
        )
        for key in range(800)
    )
    assert set(seen) == {(0, 2), (0, 3), (1, 2), (1, 3)}
    assert min(seen.values()) > 130
