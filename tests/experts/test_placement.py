"""Placements of experts as data: loads balance, parts sum to one, and no placement beats the bound."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.experts import ExpertPlacement, ExpertView, in_order, least_busiest
from poise.experts.bound import copies
from poise.experts.placement import from_physical


def test_engines_start_with_experts_in_order_and_the_first_ones_again() -> None:
    assert in_order(1, 6, 4, 2).physical() == [[0, 1, 2, 3, 4, 5, 0, 1]]


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(2, 12), st.integers(1, 6))
def test_every_pair_is_somebodys_load(seed: int, layers: int, experts: int, ranks: int) -> None:
    draw = np.random.default_rng(seed)
    placement = in_order(layers, experts, ranks, -(-experts // ranks) + seed % 2)
    counts = draw.random((layers, experts)) * 100
    assert np.allclose(placement.loads(counts).sum(axis=1), counts.sum(axis=1))
    assert np.allclose(placement.weights.sum(axis=1), 1)
    assert ((placement.balance(counts) > 0) & (placement.balance(counts) <= 1 + 1e-12)).all()


def test_the_bound_is_the_best_of_all_placements_with_even_parts_or_below() -> None:
    draw = np.random.default_rng(0)
    for _ in range(10):
        counts = draw.lognormal(0, 1, (1, 3))
        best = np.inf
        for slots in product(range(3), repeat=4):
            if set(slots) == {0, 1, 2}:
                best = min(best, from_physical([slots], 3, 2).loads(counts).max())
        bound = least_busiest(counts, 2, 2)[0]
        assert bound <= best * (1 + 1e-12)
        assert bound >= max(counts.sum() / 2, counts.max() / 2) * (1 - 1e-12)


def test_copies_go_where_the_part_is_largest_and_at_most_one_to_a_rank() -> None:
    assert copies(np.array([[9.0, 3.0, 1.0]]), 6, 3).tolist() == [[3, 2, 1]]
    assert copies(np.array([[9.0, 1.0, 1.0]]), 6, 2).sum() == 6
    assert copies(np.array([[9.0, 1.0]]), 10, 2).tolist() == [[2, 2]]  # the rest of the slots stays empty


def test_crossings_count_tokens_that_change_their_rank() -> None:
    flows = np.array([[[6.0, 2.0], [0.0, 2.0]]])
    apart, together = from_physical([[0, 1], [0, 1]], 2, 2), from_physical([[0, 1], [0, 1]], 2, 1)
    assert apart.crossings(flows) == pytest.approx(0.2)
    assert together.crossings(flows) == pytest.approx(0.0)


def test_what_is_written_for_engines_reads_back() -> None:
    rows = [[2, 0, 1, 3, 0, 2], [3, 3, 0, 1, 2, 0]]
    placement = from_physical(rows, 4, 3)
    assert from_physical(placement.physical(), 4, 3).holders() == placement.holders()
    assert placement.holders()[0][0] == (0, 2)


def test_moves_are_experts_that_a_rank_did_not_hold() -> None:
    before, after = from_physical([[0, 1, 2, 0]], 3, 2), from_physical([[0, 0, 2, 1]], 3, 2)
    assert np.argwhere(after.fetched(before)).tolist() == [[0, 1, 1]]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"counts": np.array([[1.0, np.nan]])}, "expert 1 of layer 0 has nan"),
        ({"counts": np.array([[1.0, -1.0]])}, "expert 1 of layer 0 has -1.0"),
        ({"counts": np.zeros((0, 2))}, "no table of layers and experts"),
        ({"ranks": 3, "nodes": 2}, "3 do not divide by 2 nodes"),
        ({"groups": 3}, "2 experts do not divide by 3"),
        ({"ranks": 1, "slots": 1}, "there are 2 experts; give 2 or more"),
        ({"placed": in_order(1, 4, 2)}, "of other layers, ranks or experts"),
    ],
)
def test_a_view_that_cannot_be_is_refused(wrong: dict[str, object], expected: str) -> None:
    given = {"counts": np.ones((1, 2)), "ranks": 2, "slots": 1, **wrong}
    with pytest.raises(UserError, match=expected):
        ExpertView(**given)  # type: ignore[arg-type]


def test_a_placement_that_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match="expert 1 of layer 0 is on no rank"):
        ExpertPlacement(np.array([[[1, 0]]]))
    with pytest.raises(UserError, match="does not hold their expert"):
        ExpertPlacement(np.array([[[1, 1], [1, 0]]]), np.array([[[1, 0.5], [0, 0.5]]]))
    with pytest.raises(UserError, match="hold 1 to 2 copies"):
        ExpertPlacement(np.array([[[1, 1], [0, 1]]])).physical()
    with pytest.raises(UserError, match="not among 0 to 2"):
        from_physical([[0, 1, 2, 3]], 3, 2)
    with pytest.raises(UserError, match="3 slots, which do not divide"):
        from_physical([[0, 1, 2]], 3, 2)
    with pytest.raises(UserError, match="give both of the same model"):
        in_order(1, 4, 2).loads(np.ones((2, 4)))
