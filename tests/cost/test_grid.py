"""Grids: interpolation between nodes, isotonic lines, and packing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.cost.grid import LEVEL, Axis, Grid, isotonic, pack, rising, unpack

values = st.floats(-1.2, 1.2)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    axes = tuple(
        Axis(
            draw(st.floats(-5, 5)), draw(st.floats(0.5, 3)), draw(st.integers(1, 4)), draw(st.sampled_from((0.0, 8.0)))
        )
        for _ in range(draw(st.integers(1, 3)))
    )
    size = 1
    for axis in axes:
        size *= len(axis.nodes)
    return Grid(axes, draw(st.lists(values, min_size=size, max_size=size)))


@given(grids())
@settings(deadline=None)
def test_a_node_has_its_own_value(grid: Grid) -> None:
    for node, value in zip(grid.nodes(), grid.values, strict=True):
        assert grid.at(node) == pytest.approx(value, abs=1e-9)


@given(grids(), st.lists(st.floats(-30, 30), min_size=3, max_size=3))
@settings(deadline=None)
def test_between_nodes_it_is_a_mean_of_them(grid: Grid, place: list[float]) -> None:
    corners = list(grid.corners(place[: len(grid.axes)]))
    assert sum(weight for _, weight in corners) == pytest.approx(1.0)
    assert all(weight >= 0 for _, weight in corners)
    assert min(grid.values) - 1e-9 <= grid.at(place[: len(grid.axes)]) <= max(grid.values) + 1e-9


@given(grids())
@settings(deadline=None)
def test_a_raised_grid_rises_along_every_axis_and_stays_so(grid: Grid) -> None:
    along = [True] * len(grid.axes)
    raised = rising(grid, along)
    stride = len(raised.values)
    for axis in raised.axes:
        count = len(axis.nodes)
        stride //= count
        for at, value in enumerate(raised.values):
            if at // stride % count < count - 1:
                assert raised.values[at + stride] >= value - 1e-9
    assert rising(raised, along).values == pytest.approx(raised.values)
    assert rising(grid, [False] * len(grid.axes)).values == grid.values


@given(st.lists(values, min_size=1, max_size=12))
def test_isotonic_regression_is_the_nearest_rising_line(line: list[float]) -> None:
    found = isotonic(line)
    assert all(one <= other + 1e-12 for one, other in pairwise(found))
    assert sum(found) == pytest.approx(sum(line), abs=1e-9)  # pooling keeps sums
    if line == sorted(line):
        assert found == line


@given(grids())
def test_packed_values_come_back_to_the_level(grid: Grid) -> None:
    axes = tuple(Axis(axis.low, axis.step, axis.count) for axis in grid.axes)
    count = 1
    for axis in axes:
        count *= axis.count
    kept = list(grid.values)[:count]
    assert unpack(pack(kept), axes) == pytest.approx(kept, abs=LEVEL / 2 + 1e-9)


@pytest.mark.parametrize("broken", ("", "AAAA", "not base 64!"))
def test_what_is_no_grid_is_refused(broken: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack(broken, (Axis(0, 1, 3),))
