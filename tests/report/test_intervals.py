"""Intervals over seeds: the t-interval, what is said where there is none, and how much longer it would take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.report.intervals import Interval, over_seeds

from .queues import band, mm1


def test_it_is_the_t_interval():
    # Student's t for 2 degrees of freedom at 95 % is 4.3027; s = 1, so the half-width is 4.3027/√3.
    found = over_seeds([1.0, 2.0, 3.0])
    assert found.value == 2.0 and found.half == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert (found.low, found.high) == (2.0 - found.half, 2.0 + found.half)


@pytest.mark.parametrize(
    ("values", "value", "why"),
    [
        ([], None, "there is no seed"),
        ([1.0, None], None, "a seed has no such figure"),
        ([5.0], 5.0, "one seed"),
    ],
)
def test_where_there_is_no_interval_it_says_why(values, value, why):
    found = over_seeds(values)
    assert (found.value, found.half, found.low, found.high) == (value, None, None, None)
    assert why in found.why and not found.apart and found.longer is None


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_longer_is_what_puts_0_outside_if_the_value_stays(value, half):
    found = Interval(value, half)
    if not found.apart and value:
        assert found.longer is not None
        assert Interval(value, half / found.longer**0.5 * 0.999).apart
    elif value:
        assert found.longer == 1.0


@pytest.mark.parametrize("seeds", [2, 5])
def test_seeds_of_mm1_cover_its_mean_as_often_as_they_say(seeds):
    """300 times some seeds of 500 requests; at load 0.5 the mean sojourn time is 1."""
    means = np.array([mm1(seed, 500, 0.5)[1].mean() for seed in range(300 * seeds)]).reshape(300, seeds)
    missed = sum(over_seeds((row - 1.0).tolist()).apart for row in means)
    assert missed in band(300, 0.05)
