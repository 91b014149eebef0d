"""A window and a depth that follow how requests came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poise.policies.kit.fill_window import FillWindow


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(0, 10**12)), max_size=60))
def test_neither_leaves_its_bounds(batches: list[tuple[int, int]]) -> None:
    fill = FillWindow(7 * 10**9, 16)
    for many, waited in batches:
        fill.went(many, waited)
        assert 1 <= fill.depth <= 16 and 0 <= fill.window <= 7 * 10**9


def test_they_settle_at_what_came() -> None:
    fill = FillWindow(7_000, 16)
    for _ in range(80):
        fill.went(1, 500)
    assert (fill.depth, fill.window) == (1, 500)
    for _ in range(80):
        fill.went(40, 90_000)
    assert (fill.depth, fill.window) == (16, 7_000)
