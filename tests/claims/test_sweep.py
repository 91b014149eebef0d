"""Criteria from comparisons: who is ahead of whom, ratios, and what bounds an interval allows to be said."""

from __future__ import annotations

from math import inf, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.claims.answer import Ratio
from poise.claims.sweep import Gap, at_least, at_most, every, least, ratio, times
from poise.report.intervals import Interval

gaps = st.lists(
    st.builds(
        lambda value, half: Gap(1.0, "other", 0.0, 0.0, Interval(value, half)),
        st.none() | st.floats(-10, 10),
        st.none() | st.floats(0, 10),
    ),
    min_size=1,
    max_size=4,
)


@given(gaps)
def test_the_least_gap_speaks_for_all(some: list[Gap]) -> None:
    sign = least(some).sign
    assert (sign == 1) == all(gap.sign == 1 for gap in some)
    assert (sign == -1) == any(gap.sign == -1 for gap in some)


def test_a_ratio_is_taken_seed_by_seed() -> None:
    found = ratio([1.0, 2.0, 4.0], [2.0, 4.0, 8.0])
    assert found.value is not None and isclose(found.value, 2.0)
    assert found.low is not None and isclose(found.low, 2.0)  # the seeds agree
    assert times(ratio([1.0, 1.0], [2.0, 2.0])) == "2 (2 to 2)"


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=2, max_size=6))
def test_the_inverse_of_a_ratio_is_the_ratio_of_the_inverse(pairs: list[tuple[float, float]]) -> None:
    one, two = zip(*pairs, strict=True)
    there, back = ratio(one, two), ratio(two, one)
    assert there.value and back.value and there.low and back.high
    assert isclose(there.value * back.value, 1, rel_tol=1e-9)
    if there.low > 1e-200 and back.high < inf:
        assert isclose(there.low * back.high, 1, rel_tol=1e-6)


def test_what_was_nothing_gives_no_ratio() -> None:
    assert ratio([0.0, 1.0], [1.0, 1.0]) == Ratio(None, None, None)
    assert times(ratio([0.0, 1.0], [1.0, 1.0])) == "–"


@pytest.mark.parametrize(
    ("found", "bound", "least_so", "most_so"),
    [
        (Ratio(2.0, 1.5, 2.5), 1.0, True, False),
        (Ratio(2.0, 1.5, 2.5), 3.0, False, True),
        (Ratio(2.0, 1.5, 2.5), 2.2, None, None),
        (Ratio(None, None, None), 1.0, None, None),
        (Interval(2.0, 0.5), 1.0, True, False),
        (Interval(2.0), 1.0, None, None),
    ],
)
def test_bounds(found: Ratio | Interval, bound: float, least_so: bool | None, most_so: bool | None) -> None:
    assert at_least(found, bound) is least_so
    assert at_most(found, bound) is most_so


def test_every() -> None:
    assert every([]) is True
    assert every([True, True]) is True
    assert every([True, None]) is None
    assert every([None, False, True]) is False
