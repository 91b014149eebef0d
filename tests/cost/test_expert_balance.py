"""Balanced placements: every slot is used, every expert held, and no rank has more than without redundancy."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.core.experts import BALANCED, ExpertLoad, copies
from poise.cost.expert_balance import balanced, spread


def loads(popularity: list[float], placed: tuple[tuple[int, ...], ...], ranks: int) -> list[float]:
    found = [0.0] * ranks
    for part, holders in zip(popularity, placed, strict=True):
        for rank in holders:
            found[rank] += part / len(holders)
    return found


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 3), st.randoms(use_true_random=False))
def test_slots_are_full_and_experts_are_held(ranks: int, each: int, more: int, rng: object) -> None:
    experts, spare = ranks * each, ranks * more
    popularity = [rng.random() + 0.01 for _ in range(experts)]  # type: ignore[attr-defined]
    placed = spread(np.array([popularity]), ranks, spare)[0]
    slots = Counter(rank for holders in placed for rank in holders)
    assert set(slots.values()) == {each + more} and all(placed)
    assert sum(map(len, placed)) == experts + spare
    assert sum(loads(popularity, placed, ranks)) == pytest.approx(sum(popularity))


def test_the_most_popular_is_held_twice_and_shares_its_tokens() -> None:
    placed = spread(np.array([[8.0, 4.0, 2.0, 2.0]]), 4, 4)[0]
    assert [len(each) for each in placed] == [4, 2, 1, 1]
    assert loads([8.0, 4.0, 2.0, 2.0], placed, 4) == [4.0, 4.0, 4.0, 4.0]


def test_one_expert_a_rank_cannot_be_balanced_without_spares() -> None:
    assert spread(np.array([[1.0, 2.0, 4.0]]), 3)[0] == ((2,), (1,), (0,))


def test_a_layer_for_each_of_a_load() -> None:
    placed = balanced(ExpertLoad(zipf=1.0), 16, 2, 4, spare=4)
    assert len(placed) > 1 and copies(placed, 16) == 20
    assert balanced(BALANCED, 16, 2, 4)[0] == tuple((expert % 4,) for expert in range(16))


def test_slots_that_do_not_fill_the_ranks() -> None:
    with pytest.raises(UserError, match="16 experts with 3 spare slots do not fill 4 ranks evenly"):
        balanced(BALANCED, 16, 2, 4, spare=3)
