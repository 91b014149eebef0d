"""Pieces of several lines: at every number of KV tokens they say what the choice over all lines says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.estimate import Piece
from poise.cost.estimator_wrapper import scaled
from poise.cost.lines import Line, pieces

lines = st.lists(st.builds(Line, st.integers(1, 10**9), st.integers(0, 10**4)), min_size=1, max_size=6)


@given(lines, st.lists(st.integers(0, 10**7), min_size=1), st.sampled_from((max, min)))
def test_pieces_are_the_choice_over_lines(given_lines: list[Line], places: list[int], choose: object) -> None:
    assert callable(choose)
    piece = pieces(given_lines, choose)
    edges, each = [0], piece
    while each is not None:
        edges += [each.until_kv, each.until_kv + 1]
        each = each.then
    for kv in (*places, *(edge for edge in edges if edge < 10**9)):
        found = piece.at(kv)
        assert found.base + found.per_kv * kv == choose(line.at(kv) for line in given_lines)


def test_pieces_come_in_order_and_the_last_has_no_end() -> None:
    """100 up to 10 tokens, 10 each up to 20, then 20 each less 200."""
    piece = pieces([Line(100), Line(0.0, 10), Line(-200, 20)], max)
    assert [(each.base, each.per_kv, each.until_kv) for each in (piece, piece.then) if each] == [
        (100, 0, 10), (1, 10, 20),
    ]  # fmt: skip
    assert piece.at(21) == piece.then.then and piece.at(10**12).then is None  # type: ignore[union-attr]


def test_scaling_reaches_every_piece() -> None:
    piece = scaled(Piece(10, 2, 4, 7, Piece(20, 6)), 1.5)
    assert piece == Piece(15, 3, 6, 7, Piece(30, 9))


@pytest.mark.parametrize("kv", [0, 5, 10**15])
def test_a_single_piece_holds_everywhere(kv: int) -> None:
    assert Piece(1, 2).at(kv) == Piece(1, 2)
