"""SGLang's rule on hand-made clusters, and its tree: what it learns by routing, and what it forgets."""

from __future__ import annotations

from collections import Counter

import pytest

from poise.core.errors import ScenarioError
from poise.core.request import RequestView
from poise.core.units import SECOND
from poise.policies.find import build
from poise.policies.route.cache_aware import CacheAware
from poise.testing import a_chance, a_cluster, a_replica, a_request, check_router


def prompt(*ids: int, tokens: int = 0) -> RequestView:
    """A prompt of extents of 100 tokens, named by `ids`, and as many further tokens as make it `tokens` long."""
    ends = tuple(100 * (place + 1) for place in range(len(ids)))
    return a_request(prompt_tokens=tokens or 100 * len(ids), ids=ids, ends=ends)


def send(router: CacheAware, request: RequestView, *loads: int, able: tuple[int, ...] = (), now_s: int = 0) -> int:
    replicas = [a_replica(requests=load, able=n in able or not able) for n, load in enumerate(loads)]
    return router.route(request, a_cluster(*replicas, now=now_s * SECOND), a_chance()).replica


def test_a_prompt_goes_where_its_beginning_went() -> None:
    router = CacheAware()
    assert send(router, prompt(1, 2), 5, 5, 0) == 2  # nothing is known: the least busy
    assert send(router, prompt(1, 2, 3), 0, 0, 9) == 2
    assert send(router, prompt(8, 9), 0, 4, 9) == 0
    assert send(router, prompt(1, 2, 3, 4), 0, 0, 9) == 2


@pytest.mark.parametrize(("tokens", "follows"), [(199, True), (200, False), (1000, False)])
def test_the_match_must_exceed_the_threshold(tokens: int, follows: bool) -> None:
    """100 of 200 tokens are half of the prompt, and half is not more than half."""
    router = CacheAware(cache_threshold=0.5)
    send(router, prompt(1), 5, 0)
    assert send(router, prompt(1, tokens=tokens), 0, 5) == (1 if follows else 0)


@pytest.mark.parametrize(
    ("busy", "idle", "balanced"),
    [(64, 0, True), (65, 0, False), (500, 435, True), (195, 130, True), (194, 129, False)],
)
def test_load_alone_decides_where_both_bounds_are_exceeded(busy: int, idle: int, balanced: bool) -> None:
    """Bounds 64 and 1.5: 65 more than 130 are not more than 1.5 times 130, 65 more than 129 are more than 1.5 times."""
    router = CacheAware()
    send(router, prompt(1, 2), 0, 9)
    assert send(router, prompt(1, 2), busy, idle) == (0 if balanced else 1)


def test_out_of_balance_the_tree_learns_too() -> None:
    router = CacheAware()
    send(router, prompt(1, 2), 0, 9)
    assert send(router, prompt(1, 2, 3), 90, 0) == 1
    assert send(router, prompt(1, 2, 3, 4), 9, 9) == 1  # the longest match is there now
    assert send(router, prompt(1, 2), 9, 9) == 0  # of two that have it, the one that has had it longer


def test_a_match_on_a_replica_that_is_gone_is_none() -> None:
    router = CacheAware()
    send(router, prompt(1, 2, 3), 0, 9, 9)
    assert send(router, prompt(1, 2, 3), 0, 9, 1, able=(1, 2)) == 2
    assert send(router, prompt(1, 2, 3), 9, 0, 9, able=(1, 2)) == 2
    assert send(router, prompt(1, 2, 3), 9, 0, 9) == 0  # it is back, and has not been forgotten


def test_the_bounds_look_at_the_able_alone() -> None:
    router = CacheAware()
    send(router, prompt(1, 2), 9, 9, 0)
    assert send(router, prompt(1, 2), 900, 0, 5, able=(1, 2)) == 2


def test_the_tree_forgets_the_oldest_leaves_but_only_now_and_then() -> None:
    router = CacheAware(eviction_interval_s=60.0, max_tree_size=300)
    send(router, prompt(1, 2), 0, 9, now_s=0)
    send(router, prompt(3, 4), 0, 9, now_s=10)
    assert send(router, prompt(1, 2), 9, 0, now_s=59) == 0  # 400 tokens, but nobody has looked since second 0
    assert send(router, prompt(3, 4), 9, 0, now_s=60) == 0  # one leaf is too much, and 4 was older than 2
    router = CacheAware(cache_threshold=0.9, eviction_interval_s=60.0, max_tree_size=300)
    for ids in ((1, 2), (3, 4), (1, 2)):
        send(router, prompt(*ids), 0, 9)
    assert send(router, prompt(3, 4), 9, 0, now_s=60) == 1


def test_an_interval_of_0_evicts_before_every_decision() -> None:
    router = CacheAware(eviction_interval_s=0.0, max_tree_size=0)
    send(router, prompt(1, 2), 0, 9)
    assert send(router, prompt(1, 2), 9, 0) == 1


def test_a_prompt_without_identity_goes_to_the_least_busy_and_teaches_nothing() -> None:
    router = CacheAware()
    assert send(router, a_request(ids=()), 3, 2, 4) == 1
    assert not router._tree._holders


def test_ties_are_fair() -> None:
    counts: Counter[int] = Counter()
    for key in range(3000):
        cluster = a_cluster(a_replica(requests=9), *[a_replica(requests=2) for _ in range(3)])
        counts[CacheAware().route(a_request(id=key), cluster, a_chance(key=key)).replica] += 1
    assert set(counts) == {1, 2, 3}
    assert min(counts.values()) > 850


def test_is_a_router_whatever_its_parameters() -> None:
    check_router(lambda: CacheAware(0.0, 0, 1.0, 0.0, 500))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"cache_threshold": 1.5}, "cache_threshold 1.5 is no share of a prompt; give 0 to 1"),
        ({"max_tree_size": -1}, "must not be negative"),
        ({"eviction_interval_s": -1.0}, "must not be negative"),
    ],
)
def test_errors_name_the_cure(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        build("router", "cache_aware", parameters)
