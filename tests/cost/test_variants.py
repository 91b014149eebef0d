"""Variants of a model: popularity, places for all of them, pools that share tenants, and how many meet in a batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.cost.variants import distinct, placed, popularity, spread
from tests.cost.pools import H100, LLAMA_8B, Pool


@given(st.integers(1, 8), st.integers(1, 12), st.integers(1, 6), st.floats(0, 2))
def test_every_variant_has_a_place_and_no_device_too_many(n: int, devices: int, held: int, skew: float) -> None:
    popular = popularity(n, skew)
    if devices * held < n:
        with pytest.raises(UserError, match="hold fewer"):
            placed(popular, devices, held)
        return
    found = placed(popular, devices, held)
    assert all(where and len(set(where)) == len(where) for where in found)
    assert max(sum(device in where for where in found) for device in range(devices)) <= held


def test_popular_variants_are_at_more_devices() -> None:
    where = placed(popularity(6, 1.5), 6, 2)
    assert [len(each) for each in where] == sorted((len(each) for each in where), reverse=True)
    assert len(where[0]) > len(where[-1]) == 1


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 6))
def test_pools_have_all_replicas_and_name_every_variant(n: int, replicas: int, held: int) -> None:
    if replicas * held < n:
        return
    pools = spread(Pool(LLAMA_8B, H100), popularity(n), replicas, held)
    assert sum(pool.replicas for pool in pools) <= replicas  # one for which nothing is left to hold is not there
    assert {each for pool in pools for each in pool.tenants} == set(range(n))
    assert all(len(pool.tenants) <= held for pool in pools)
    assert len({pool.tenants for pool in pools}) == len(pools)


@given(st.integers(1, 12), st.floats(0, 3), st.integers(1, 200))
def test_no_more_variants_meet_than_there_are(n: int, skew: float, requests: int) -> None:
    met = distinct(popularity(n, skew), requests)
    assert 1 <= met <= min(n, requests) + 1e-9
    assert met <= distinct(popularity(n, 0), requests) + 1e-9  # alike ones meet most
    assert met <= distinct(popularity(n, skew), requests + 1)


def test_two_of_two_by_hand() -> None:
    assert distinct([0.5, 0.5], 2) == 1.5
    assert popularity(2) == [2 / 3, 1 / 3]
    with pytest.raises(UserError, match="give 1 variant or more"):
        popularity(0)
