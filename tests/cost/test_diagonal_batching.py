"""The grid of cells: every cell once, no sooner than what it needs, and gains with their limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import UserError
from poise.core.spec import Pool
from poise.cost.diagonal_batching import Cells, diagonal_s, groups, most, sequential_s

sizes = st.integers(1, 60)


@given(sizes, sizes)
def test_diagonals_have_every_cell_once(segments: int, layers: int) -> None:
    found = list(groups(segments, layers))
    assert len(found) == segments + layers - 1
    assert sum(found) == segments * layers
    assert max(found) == min(segments, layers)
    counted = [sum(s + la == step for s in range(segments) for la in range(layers)) for step in range(len(found))]
    assert found == counted


@given(sizes, sizes, st.floats(0, 5), st.floats(0.01, 5))
def test_gains_lie_between_none_and_the_most(segments: int, layers: int, fixed: float, each: float) -> None:
    gain = sequential_s(segments, layers, lambda n: fixed + n * each) / diagonal_s(
        segments, layers, lambda n: fixed + n * each
    )
    assert 1 - 1e-9 <= gain <= most(segments, layers) + 1e-9


def test_the_most_nears_the_layers() -> None:
    assert most(16, 16) == pytest.approx(256 / 31)
    assert most(10_000, 16) == pytest.approx(16, rel=0.002)


def test_cells_of_a_model() -> None:
    cells = Cells(Pool(model("llama-3.2-1b"), device("A100")))
    assert cells.grouped_s(1) == pytest.approx(cells.fixed_s() + cells.alone_s())
    assert cells.grouped_s(8) < 8 * cells.grouped_s(1)
    assert cells.grouped_s(1, 0.5) == pytest.approx(cells.fixed_s() + 2 * cells.alone_s())
    assert cells.grouped_s(16, 0.5) == cells.grouped_s(16)
    assert cells.full_s(131_072) > 2.5 * cells.full_s(65_536)


def test_there_is_a_grid() -> None:
    with pytest.raises(UserError, match="give 1 or more"):
        list(groups(0, 4))
