"""Consistent hashing with bounded loads: one replica a head, nobody beyond the bound, and few that move."""

from __future__ import annotations

from collections import Counter
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.core.request import RequestView
from poise.policies.find import build
from poise.policies.kit.hash_ring import HashRing, spot
from poise.policies.route.bounded_hash import BoundedHash
from poise.testing import a_chance, a_cluster, a_replica, a_request, check_router


def prompt(*ids: int, id: int = 0) -> RequestView:
    """A prompt of extents of 200 tokens each, named by `ids`."""
    return a_request(
        id=id, prompt_tokens=200 * len(ids) + 50, ids=ids, ends=tuple(200 * (n + 1) for n in range(len(ids)))
    )


def home(request: RequestView, loads: list[int], able: tuple[int, ...] = (), router: BoundedHash | None = None) -> int:
    cluster = a_cluster(*[a_replica(requests=load, able=n in able or not able) for n, load in enumerate(loads)])
    return (router or BoundedHash()).route(request, cluster, a_chance(key=request.id)).replica


def test_prompts_that_begin_alike_share_a_replica() -> None:
    homes = {home(prompt(1, 2, last, id=last), [0] * 8) for last in range(50)}
    assert len(homes) == 1
    assert len({home(prompt(first, 2, 3), [0] * 8) for first in range(50)}) == 1  # the second extent covers 256 tokens
    assert len({home(prompt(1, second, 3), [0] * 8) for second in range(50)}) == 8


@pytest.mark.parametrize(("tokens", "extents"), [(1, 1), (200, 1), (201, 2), (600, 3), (5000, 3)])
def test_the_key_is_the_shortest_run_of_extents_that_covers_it(tokens: int, extents: int) -> None:
    router, request = BoundedHash(prefix_tokens=tokens), prompt(7, 8, 9)
    key = request.ids[extents - 1]
    assert home(request, [0] * 8, router=router) == HashRing(a_chance().seed).successor(spot(key), range(8))


def test_prompts_without_identity_are_spread() -> None:
    router = BoundedHash()
    counts = Counter(home(a_request(id=key, ids=()), [0] * 4, router=router) for key in range(2000))
    assert all(350 < counts[replica] < 650 for replica in range(4))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(0, 200), st.sampled_from((1.0, 1.25, 2.0)))
def test_no_replica_gets_beyond_the_bound(loads: list[int], head: int, factor: float) -> None:
    replica = home(prompt(0, head), loads, router=BoundedHash(factor))
    assert loads[replica] + 1 <= ceil(round(factor * (sum(loads) + 1) / len(loads), 9))


def test_a_stream_of_one_head_fills_replicas_one_after_the_other() -> None:
    """All prompts alike, nobody leaves: the fullest is never beyond ⌈1.25 · mean⌉, and the same replica comes first."""
    loads, first = [0] * 5, home(prompt(0, 1), [0] * 5)
    for number in range(200):
        replica = home(prompt(0, 1, id=number), loads)
        loads[replica] += 1
        assert max(loads) <= ceil(1.25 * (number + 1) / 5)
    assert loads[first] == max(loads) == 50


def test_only_the_heads_of_a_replica_that_goes_move_and_come_back_with_it() -> None:
    heads = [prompt(0, head) for head in range(300)]
    router = BoundedHash()
    everybody = [home(each, [0] * 6, router=router) for each in heads]
    without = [home(each, [0] * 6, able=(0, 1, 2, 4, 5), router=router) for each in heads]
    assert 3 in everybody and 3 not in without
    assert all(before == after for before, after in zip(everybody, without, strict=True) if before != 3)
    assert len({after for before, after in zip(everybody, without, strict=True) if before == 3}) == 5
    assert [home(each, [0] * 6, router=router) for each in heads] == everybody


def test_the_bound_counts_the_able_alone() -> None:
    """A hundred requests on a draining replica make no room on the others."""
    request = prompt(0, 1)
    first = home(request, [2, 2, 100], able=(0, 1))
    loads = [2, 2, 100]
    loads[first] = 4  # mean of the able 3, bound ⌈1.25 · 7 / 2⌉ = 5
    assert home(request, loads, able=(0, 1)) == first
    loads[first] = 5  # bound ⌈1.25 · 8 / 2⌉ = 5
    assert home(request, loads, able=(0, 1)) == 1 - first


def test_each_seed_lays_another_ring() -> None:
    cluster = a_cluster(*[a_replica() for _ in range(16)])
    router = BoundedHash()
    homes = [router.route(prompt(0, 1), cluster, a_chance(seed)).replica for seed in range(30)]
    assert len(set(homes)) > 8
    assert homes == [BoundedHash().route(prompt(0, 1), cluster, a_chance(seed)).replica for seed in range(30)]


def test_is_a_router_whatever_its_parameters() -> None:
    check_router(lambda: BoundedHash(1.0, 1, 200))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"factor": 0.9}, "factor 0.9 is below 1; the replicas must have room"),
        ({"prefix_tokens": 0}, "prefix_tokens 0 is below 1"),
        ({"points": 0}, "points 0 is below 1"),
    ],
)
def test_errors_name_the_cure(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        build("router", "bounded_hash", parameters)
