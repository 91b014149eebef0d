"""Chance is keyed: what is drawn depends on seed, purpose and key, never on order; and it is even."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.chance import Chance, Ranks

words = st.text(min_size=1, max_size=8)
keys = st.integers(0, 2**40)
questions = st.lists(st.tuples(words, keys), min_size=1, max_size=8)


def answers(chance: Chance, questions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    given_: dict[tuple[str, int], int] = {}
    for purpose, key in questions:
        chance.key = key
        given_[purpose, key] = chance.bits(purpose)
    return given_


def chi_square(counts: Counter[int], cells: int) -> float:
    share = counts.total() / cells
    return sum((counts[cell] - share) ** 2 / share for cell in range(cells))


@given(st.integers(0, 2**64), questions, st.randoms())
def test_the_order_of_questions_changes_no_answer(seed: int, found: list[tuple[str, int]], rng: Random) -> None:
    shuffled = found * 2
    rng.shuffle(shuffled)
    assert answers(Chance(seed), found) == answers(Chance(seed), shuffled)


@given(st.integers(0, 2**32), st.integers(0, 2**32), keys, words)
def test_another_seed_key_or_purpose_gives_another_draw(seed: int, other: int, key: int, purpose: str) -> None:
    bits = Chance(seed, key).bits(purpose)
    assert bits != Chance(seed, key + 1).bits(purpose)
    assert bits != Chance(seed, key).bits(purpose + "'")
    assert (bits == Chance(other, key).bits(purpose)) == (seed == other)


@pytest.mark.parametrize("purpose", ["tie", "fault"])
@pytest.mark.parametrize("cells", [2, 3, 16, 64])
def test_draws_are_uniform_over_keys(purpose: str, cells: int) -> None:
    """Chi-square over neighbouring keys, which is where keyed draws go wrong; mean cells − 1, here + 6 σ at most."""
    chance = Chance(11)
    drawn, picked = Counter[int](), Counter[int]()
    for key in range(200 * cells):
        chance.key = key
        drawn[int(chance.draw(purpose) * cells)] += 1
        picked[chance.pick(range(cells), purpose)] += 1
    bound = cells - 1 + 6 * (2 * (cells - 1)) ** 0.5
    assert chi_square(drawn, cells) < bound
    assert chi_square(picked, cells) < bound


def test_seeds_are_as_good_as_keys() -> None:
    drawn = Counter(int(Chance(seed, 3).draw() * 10) for seed in range(2000))
    assert chi_square(drawn, 10) < 9 + 6 * 18**0.5


def test_two_purposes_are_independent() -> None:
    chance = Chance(5)
    pairs = Counter[int]()
    for key in range(4000):
        chance.key = key
        pairs[int(chance.draw("a") * 4) * 4 + int(chance.draw("b") * 4)] += 1
    assert chi_square(pairs, 16) < 15 + 6 * 30**0.5


@given(st.integers(0, 99), st.lists(st.integers(0, 3), min_size=1, max_size=9), st.data())
def test_least_picks_a_minimum_of_the_able(key: int, column: list[int], data: st.DataObject) -> None:
    able = sorted(data.draw(st.sets(st.integers(0, len(column) - 1), min_size=1)))
    least = min(column[replica] for replica in able)
    for chosen in (Chance(1, key).least(able, column), Chance(1, key).least(able, lambda replica: column[replica])):
        assert chosen in able
        assert column[chosen] == least


@given(st.integers(0, 99), st.lists(st.integers(0, 2), min_size=1, max_size=9))
def test_a_column_and_a_function_draw_the_same(key: int, column: list[int]) -> None:
    able = range(len(column))
    assert Chance(2, key).least(able, column) == Chance(2, key).least(able, column.__getitem__)


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(0, 39), st.integers(-3, 3)), max_size=80), st.integers(0, 99))
def test_ranks_find_the_least_that_a_look_at_the_whole_column_finds(
    replicas: int, changes: list[tuple[int, int]], key: int
) -> None:
    ranks, plain, ranked = Ranks([0] * replicas), Chance(1, key), Chance(1, key)
    ranked.ranks, able = ranks, range(replicas)
    for replica, more in changes:
        ranks.add(replica % replicas, more)
        assert ranks.low == min(ranks.column)
        assert ranked.least(able, ranks.column) == plain.least(able, list(ranks.column))
        assert ranked.least(able[1:] or able, ranks.column) == plain.least(able[1:] or able, ranks.column)


def test_least_is_fair_between_equals() -> None:
    chance = Chance(3)
    column = [5, 1, 9, 1, 1, 0, 1]
    able = [0, 1, 3, 4, 6]  # 5, the least of all, is not able
    chosen = Counter[int]()
    for key in range(4000):
        chance.key = key
        chosen[chance.least(able, column)] += 1
    assert set(chosen) == {1, 3, 4, 6}
    share = 1000
    assert sum((count - share) ** 2 / share for count in chosen.values()) < 3 + 6 * 6**0.5
