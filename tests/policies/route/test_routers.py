"""The rules of the built-in routers on hand-made clusters."""

from __future__ import annotations

from collections import Counter

import pytest

from poise.core.action import Route
from poise.core.chance import Chance
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.least_tokens import LeastTokens
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.route.round_robin import RoundRobin
from poise.testing import a_chance, a_cluster, a_replica, a_request

WITH_PREFIX = a_request(prompt_tokens=1000, ids=(1, 2), ends=(500, 900))


def chosen(router: RoundRobin | LeastRequests | LeastTokens | PrefixCache, *replicas: object, key: int = 0) -> int:
    route = router.route(WITH_PREFIX, a_cluster(*replicas), Chance(0, key))  # type: ignore[arg-type]
    assert isinstance(route, Route)
    return route.replica


def test_round_robin_takes_each_able_replica_in_turn() -> None:
    router = RoundRobin()
    three = [a_replica(), a_replica(), a_replica()]
    assert [chosen(router, *three) for _ in range(4)] == [0, 1, 2, 0]
    assert chosen(router, a_replica(), a_replica(able=False), a_replica()) == 2
    assert chosen(router, a_replica(able=False), a_replica(), a_replica()) == 1


def test_round_robin_counts_each_stage_of_a_pair_apart() -> None:
    router = RoundRobin()
    pair = [a_replica(role="prefill"), a_replica(role="prefill"), a_replica(role="decode"), a_replica(role="decode")]
    seen = []
    for _ in range(4):
        for stage in ("serve", "decode"):
            seen.append(router.route(WITH_PREFIX, a_cluster(*pair, stage=stage), a_chance()).replica)
    assert seen == [0, 2, 1, 3, 0, 2, 1, 3]


def test_least_requests_and_least_tokens_read_their_own_column() -> None:
    replicas = [a_replica(requests=3, tokens=10), a_replica(requests=1, tokens=500)]
    assert chosen(LeastRequests(), *replicas) == 1
    assert chosen(LeastTokens(), *replicas) == 0


@pytest.mark.parametrize("router", [LeastRequests(), LeastTokens(), PrefixCache()])
def test_ties_are_fair(router: LeastRequests) -> None:
    replicas = [a_replica(requests=2), a_replica(requests=2), a_replica(requests=2), a_replica(requests=9)]
    if isinstance(router, LeastTokens):
        replicas = [a_replica(tokens=5), a_replica(tokens=5), a_replica(tokens=5), a_replica(tokens=6)]
    counts = Counter(chosen(router, *replicas, key=key) for key in range(3000))
    assert set(counts) == {0, 1, 2}
    assert min(counts.values()) > 850


def test_prefix_cache_prefers_the_longest_match() -> None:
    replicas = [a_replica(cached_tokens=500), a_replica(cached_tokens=900), a_replica()]
    assert chosen(PrefixCache(), *replicas) == 1


def test_prefix_cache_breaks_equal_matches_by_load() -> None:
    assert (
        chosen(PrefixCache(), a_replica(cached_tokens=500, requests=3), a_replica(cached_tokens=500, requests=2)) == 1
    )


def test_prefix_cache_goes_by_load_alone_beyond_the_imbalance() -> None:
    spread = [a_replica(cached_tokens=900, requests=17), a_replica(requests=0)]
    assert chosen(PrefixCache(imbalance=16, deviations=100.0), *spread) == 1
    assert chosen(PrefixCache(imbalance=17, deviations=100.0), *spread) == 0


def test_prefix_cache_passes_over_replicas_beyond_mean_and_deviations() -> None:
    """Loads 8, 0, 0, 0: mean 2, σ = √12 ≈ 3.46; the holder is at mean + 1.73 σ."""
    loads = [a_replica(cached_tokens=900, requests=8), *[a_replica() for _ in range(3)]]
    assert chosen(PrefixCache(deviations=2.0), *loads) == 0
    assert chosen(PrefixCache(deviations=1.7), *loads) != 0
    second = [loads[0], a_replica(cached_tokens=500), *loads[2:]]
    assert chosen(PrefixCache(deviations=1.7), *second) == 1


def test_prefix_cache_without_identity_or_match_takes_the_least_loaded() -> None:
    cluster = a_cluster(a_replica(requests=2), a_replica(requests=1))
    assert PrefixCache().route(a_request(prompt_tokens=10), cluster, a_chance()) == Route(1)
    assert chosen(PrefixCache(), a_replica(requests=2), a_replica(requests=1)) == 1
