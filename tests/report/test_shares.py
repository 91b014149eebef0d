"""Shares: the score interval on an effective size, and how many independent requests a latency is worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.report.intervals import Interval
from poise.report.shares import effective_size, score

from .queues import mm1

Z = 1.959964


def texts(share: float, size: float, error: float | None = None) -> Interval:
    """The interval of one share whose standard error is that of `size` independent requests, or given."""
    error = (share * (1 - share) / size) ** 0.5 if error is None else error
    return score(Interval(share, Z * error, error=error), [share], size, 0.95)


@given(st.integers(1, 10_000), st.data())
def test_it_contains_the_interval_of_wilson(size: int, data: st.DataObject) -> None:
    share = data.draw(st.integers(0, size)) / size
    middle = (share + Z**2 / (2 * size)) / (1 + Z**2 / size)
    half = Z / (1 + Z**2 / size) * (share * (1 - share) / size + Z**2 / (4 * size**2)) ** 0.5
    found = texts(share, size)
    assert found.half is not None
    assert max(found.low, 0) <= max(middle - half, 0) + 1e-9 and min(found.high, 1) >= min(middle + half, 1) - 1e-9


def test_nothing_seen_is_bounded_by_how_much_was_looked_at() -> None:
    """Of n requests none failed: Wilson's bound is z²/(n + z²), a rule of nearly four."""
    found = texts(1.0, 1000)
    assert found.half == pytest.approx(Z**2 / 1000)
    gap = score(Interval(0.0, 0.0, error=0.0), [1.0, 1.0], 1000, 0.95)
    assert gap.half == pytest.approx(Z**2 / 1000) and not gap.apart


def test_in_the_middle_it_is_the_plain_one_and_never_wider_than_what_is_possible() -> None:
    assert texts(0.5, 100).half == pytest.approx(Z * 0.05)
    assert texts(0.9, 2).half == 0.9
    assert score(Interval(-0.4, 3.0, error=1.0), [1.0, 0.6], 100, 0.95).half == 1.4
    without = Interval(0.5, None, "too short to say")
    assert score(without, [0.5], 100, 0.95) is without


def test_a_share_that_varies_more_than_its_size_says_is_worth_fewer() -> None:
    alone, clustered = texts(0.99, 1000), texts(0.99, 1000, error=0.01)
    assert clustered.half > Z * 0.01 > alone.half


def test_five_seeds_of_3000_requests_decide_between_all_and_two_thirds() -> None:
    """The shares of five seeds under two routers at the same load, at the confidence that four routers ask for."""
    gaps = np.array([1 - 0.6183, 1 - 0.723, 0.9997 - 0.5857, 1 - 0.785, 0.9997 - 0.7053])
    error = float(gaps.std(ddof=1)) / 5**0.5
    plain = Interval(float(gaps.mean()), 3.961 * error, error=error)  # Student's t of 4 degrees, two-sided 98.3 %
    assert score(plain, [0.9999, 0.6835], 2000, 1 - 0.05 / 3).apart


@pytest.mark.parametrize("seed", range(5))
def test_independent_requests_count_and_correlated_ones_count_less(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(size=4096)
    assert 4096 / 4 < effective_size(noise) <= 4096
    level = 0.0
    slow = np.array([level := 0.9 * level + each for each in noise])
    assert 4096 / 19 / 3 < effective_size(slow) < 4096 / 19 * 2  # correlation time (1 + 0.9) / (1 − 0.9) = 19
    assert effective_size(noise + np.linspace(0, 100, 4096)) == pytest.approx(effective_size(noise), rel=0.2)


def test_a_busy_queue_is_worth_less_than_an_idle_one() -> None:
    sizes = [np.mean([effective_size(mm1(seed, 3000, load)[1]) for seed in range(20)]) for load in (0.3, 0.5, 0.8)]
    assert sizes[0] > 2 * sizes[1] > 4 * sizes[2]


def test_what_does_not_vary_says_nothing_against_independence() -> None:
    assert effective_size(np.full(100, 7.0)) == 100 and effective_size(np.arange(3.0)) == 3
