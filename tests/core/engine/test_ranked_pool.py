"""A pool that evicts by rank: equal ranks are LRU, others go in their order, whoever holds what meanwhile."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from poise.core.engine.kv_pool import KvPool
from poise.core.engine.ranked_pool import RankedPool
from tests.core.blocks import known
from tests.core.engine.test_kv_pool import a_sequence, computed


def left(pool: KvPool, extent: int, blocks: int) -> None:
    """A request of so many blocks comes and goes."""
    sequence = computed(pool, a_sequence(extent, (extent, 2 * blocks)), 2 * blocks)
    pool.explicit -= pool.private(sequence)
    pool.drop(pool.release(sequence))


def cached(pool: KvPool) -> set[int]:
    return set(pool.nodes)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 30)), max_size=40))
def test_equal_ranks_are_lru(steps: list[tuple[int, int]]) -> None:
    pools = [KvPool(100, 2, True), RankedPool(100, 2, True, None, lambda sequence, extent, blocks: 0)]
    for extent, room in steps:
        for pool in pools:
            left(pool, extent, 1 + extent)
            pool.settle(room)
            pool.check(0)
        held = [known(pool) for pool in pools]
        assert held[0] == held[1]


def test_the_least_rank_goes_first_and_the_oldest_of_equals() -> None:
    ranks = {1: 5, 2: 1, 3: 5, 4: 1}
    pool = RankedPool(100, 2, True, None, lambda sequence, extent, blocks: ranks[extent])
    for extent in ranks:
        left(pool, extent, 2)
    gone = []
    for room in (6, 4, 2, 0):
        before = cached(pool)
        pool.settle(room)
        gone += list(before - cached(pool))
    assert gone == [2, 4, 1, 3]


def test_a_rank_is_read_again_when_an_extent_was_held_since() -> None:
    requests: list[int] = []

    def rank(sequence: Any, extent: int, blocks: int) -> int:
        requests.append(extent)
        return 9 if requests == [1] else 0 if extent < 0 else 5 if extent == 2 else 1

    pool = RankedPool(100, 2, True, None, rank)
    left(pool, 1, 2)
    left(pool, 2, 2)
    left(pool, 1, 2)
    assert [extent for extent in requests if extent >= 0] == [1, 2, 1]
    pool.settle(2)
    assert cached(pool) == {2}, "by its first rank extent 1 would have stayed"
