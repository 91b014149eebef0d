"""Paths against a plain filter, and where two of them part against a plain walk."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from poise.core.engine.runs import parting, path_of


@given(st.lists(st.integers(1, 9), max_size=8), st.integers(1, 5))
def test_a_path_has_the_extents_in_which_blocks_end(lengths: list[int], block: int) -> None:
    ends = tuple(accumulate(lengths))
    path = path_of(tuple(range(len(ends))), ends, block)
    before = (0, *ends)
    whole = [place for place, end in enumerate(ends) if end // block > before[place] // block]
    assert path.ids == tuple(whole)
    assert path.ends == tuple(ends[place] for place in whole)
    assert path.bounds == [ends[place] // block for place in whole]


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.data())
def test_chains_part_at_the_first_difference(common: int, mine: int, other: int, data: st.DataObject) -> None:
    one = tuple(range(common + mine))
    two = (*range(common), *(100 + place for place in range(other)))
    same = data.draw(st.integers(0, common))
    end = data.draw(st.integers(same, min(len(one), len(two))))
    if end:
        assert parting(one, two, same, end) == min(common, end)
