"""The ring against its definition, and what changes hands when a replica comes or goes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from poise.policies.kit.hash_ring import HashRing, spot

ables = st.sets(st.integers(0, 9), min_size=1).map(lambda ids: tuple(sorted(ids)))
keys = st.integers(0, 1 << 64)
KEYS = [spot(key) for key in range(4000)]


def homes(ring: HashRing, able: tuple[int, ...]) -> list[int]:
    return [ring.successor(key, able) for key in KEYS]


@given(ables, keys, st.integers(1, 5))
def test_a_walk_meets_each_able_replica_once_and_others_do_not_change_the_order(
    able: tuple[int, ...], key: int, points: int
) -> None:
    ring = HashRing(7, points)
    met = list(ring.walk(spot(key), able))
    assert sorted(met) == list(able)
    assert met[0] == ring.successor(spot(key), able)
    for before, after in pairwise(met):  # met first among all, so met first among the two
        assert ring.successor(spot(key), tuple(sorted((before, after)))) == before


@given(ables, st.integers(0, 9))
def test_only_the_keys_of_a_replica_that_goes_move(able: tuple[int, ...], gone: int) -> None:
    ring = HashRing(3)
    left = tuple(replica for replica in able if replica != gone)
    if not left:
        return
    for key in KEYS[:100]:
        home = ring.successor(key, able)
        assert ring.successor(key, left) == home or home == gone


def test_a_replica_that_joins_takes_its_share_and_nothing_else_moves() -> None:
    ring = HashRing(3)
    before, after = homes(ring, tuple(range(9))), homes(ring, tuple(range(10)))
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {9}
    assert 0.6 < len(moved) / (len(KEYS) / 10) < 1.5


@given(st.lists(ables, max_size=6), ables, keys)
def test_who_was_able_before_does_not_matter(history: list[tuple[int, ...]], able: tuple[int, ...], key: int) -> None:
    fresh, old = HashRing(5, 4), HashRing(5, 4)
    for each in history:
        old.successor(spot(key), each)
    assert list(fresh.walk(spot(key), able)) == list(old.walk(spot(key), able))


def test_keys_are_spread_over_the_replicas() -> None:
    counts = Counter(homes(HashRing(1), tuple(range(16))))
    assert max(counts.values()) < 1.5 * len(KEYS) / 16
    assert min(counts.values()) > 0.5 * len(KEYS) / 16


def test_two_choices_are_independent_hashes() -> None:
    ring, able = HashRing(1), tuple(range(4))
    pairs = Counter((ring.successor(spot(key), able), ring.successor(spot(key, 1), able)) for key in range(4000))
    assert len(pairs) == 16
    shares = [Counter(homes(ring, able))[replica] / len(KEYS) for replica in able]
    for (first, second), count in pairs.items():
        assert abs(count / 4000 - shares[first] * shares[second]) < 0.02


def test_the_other_choice_is_the_next_clockwise() -> None:
    ring, able = HashRing(1), tuple(range(4))
    first, second, *_ = ring.walk(spot(9), able)
    assert ring.successor(spot(9), able, besides=first) == second
    assert ring.successor(spot(9), (2,), besides=2) == 2


@given(ables, keys, st.lists(st.integers(0, 20), min_size=10, max_size=10), st.sampled_from((1.0, 1.1, 1.25, 2.0)))
def test_no_full_replica_is_chosen(able: tuple[int, ...], key: int, loads: list[int], factor: float) -> None:
    ring = HashRing(2, 5)
    total = sum(loads[replica] for replica in able)
    full = {replica for replica in able if loads[replica] * len(able) >= factor * (total + 1)}
    assert full < set(able)
    want = next(replica for replica in ring.walk(spot(key), able) if replica not in full)
    assert ring.below(spot(key), able, loads, factor) == want


def test_the_ring_is_the_same_in_every_process() -> None:
    """Written down once: neither the interpreter's hash seed nor its version may change them."""
    assert [spot(0), spot(1), spot(1, 1)] == [16294208416658607535, 13830413928045401970, 6869446166584666695]
    assert homes(HashRing(0), tuple(range(8)))[:8] == [5, 3, 1, 2, 4, 2, 6, 0]
