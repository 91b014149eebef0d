"""Arrivals follow their profile as a Poisson process does, and a shorter load begins a longer one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.core.units import SECOND
from poise.workload import Profile, Workload, diurnal, on_off, poisson, sessions, shared_prefixes

HUMP = [(0, 1), (500, 20), (500, 4), (1000, 0)]


def counts_in(made: Workload, width_s: float, bins: int) -> np.ndarray:
    return np.bincount((made.arrival / SECOND / width_s).astype(int), minlength=bins)


def test_a_flat_profile_is_poisson() -> None:
    flat, plain = diurnal([(0, 5), (100, 5)], seed=3), poisson(5, duration_s=100, seed=3)
    assert flat.arrival == pytest.approx(plain.arrival, abs=1000)


def test_counts_are_poisson_with_the_profiles_means() -> None:
    """Over many seeds each stretch's count has its area as mean and as variance."""
    profile = Profile.of(HUMP)
    expected = np.diff([profile.until(at) for at in range(0, 1001, 100)])
    drawn = np.array([counts_in(diurnal(profile, seed=seed), 100, 10) for seed in range(200)])
    # A mean of 200 Poisson draws errs by √(λ/200), a variance by λ·√(2/200); five of each.
    assert (np.abs(drawn.mean(0) - expected) < 5 * np.sqrt(expected / 200)).all()
    assert (np.abs(drawn.var(0) - expected) < 5 * expected * 0.1 + 1).all()


def test_stretches_do_not_depend_on_each_other() -> None:
    drawn = np.array([counts_in(diurnal(HUMP, seed=seed), 100, 10) for seed in range(200)])
    others = np.corrcoef(drawn.T)[~np.eye(10, dtype=bool)]
    assert np.abs(others).max() < 0.35 and abs(others.mean()) < 0.03


def test_the_mean_can_be_scaled_and_bursts_added() -> None:
    problems = diurnal(HUMP, rate=30, seed=1).check()
    assert len(problems) == pytest.approx(30_000, rel=0.03)
    bursty = diurnal([(0, 20), (2000, 20)], cv=3.0, seed=1).summary()
    assert bursty["cv"] == pytest.approx(3.0, rel=0.1) and bursty["rate"] == pytest.approx(20, rel=0.1)


def test_a_flash_crowd() -> None:
    crowd = diurnal([(0, 10), (300, 10)], spikes=[{"at_s": 100, "lasting_s": 100, "factor": 8}], seed=2)
    assert counts_in(crowd, 100, 3) == pytest.approx([1000, 8000, 1000], rel=0.12)


@given(st.integers(1, 300), st.integers(0, 20))
def test_a_shorter_load_is_the_beginning_of_a_longer_one(requests: int, seed: int) -> None:
    for make in (
        lambda **bounds: diurnal(HUMP, repeat=True, seed=seed, **bounds),
        lambda **bounds: on_off(30, on_s={"exponential": 3}, off_s={"exponential": 9}, rate_off=1, seed=seed, **bounds),
    ):
        short, long = make(requests=requests).check(), make(requests=requests + 77)
        assert short.arrival.tolist() == long.arrival[:requests].tolist()
        timed = make(duration_s=(long.arrival[requests - 1] + 1000) / SECOND)
        assert timed.arrival[:requests].tolist() == short.arrival.tolist()


def test_a_profile_ends_or_comes_again() -> None:
    once = diurnal(HUMP, seed=4)
    assert once.arrival[-1] < 1000 * SECOND
    twice = diurnal(HUMP, repeat=True, duration_s=2000, seed=4)
    assert twice.arrival[: len(once)].tolist() == once.arrival.tolist() and len(twice) > 1.7 * len(once)
    with pytest.raises(ScenarioError, match="the profile ends at 1000 s; shorten it or set repeat"):
        diurnal(HUMP, duration_s=1001)
    with pytest.raises(ScenarioError, match="no request arrives"):
        diurnal([(0, 0), (10, 0), (10, 1), (20, 1)], duration_s=10)


def test_on_and_off_by_turns() -> None:
    made = on_off(40, rate_off=2, on_s=10, off_s=90, duration_s=10_000, seed=5).check()
    within = made.arrival / SECOND % 100
    assert (within >= 90).sum() == pytest.approx(40 * 1000, rel=0.03)
    assert (within < 90).sum() == pytest.approx(2 * 9000, rel=0.04)


def test_the_index_of_dispersion_of_a_modulated_process() -> None:
    """Variance over mean of counts in long windows tends to 1 + 2·λ²·p·(1−p)·τ/(λ·p), τ the decay of the on state."""
    rate, on, off = 20.0, 2.0, 8.0
    made = on_off(rate, on_s={"exponential": on}, off_s={"exponential": off}, duration_s=100_000, seed=6)
    counts = counts_in(made, 200, 500)[:500]
    decay = on * off / (on + off)
    assert counts.mean() / 200 == pytest.approx(rate * on / (on + off), rel=0.05)
    assert counts.var() / counts.mean() == pytest.approx(1 + 2 * rate * (off / (on + off)) * decay, rel=0.2)


def test_wrong_turns() -> None:
    with pytest.raises(ScenarioError, match="on_s draws nothing but 0"):
        on_off(5, on_s=0, off_s=5, requests=3)
    with pytest.raises(ScenarioError, match="rate_on is 0"):
        on_off(0, on_s=1, off_s=5, requests=3)
    with pytest.raises(ScenarioError, match="off_s is 'long'"):
        on_off(5, on_s=1, off_s="long", requests=3)  # type: ignore[arg-type]


def test_without_end_the_simulation_says_when() -> None:
    for made in (diurnal(HUMP, repeat=True), on_off(5, on_s=1, off_s=1), poisson(5)):
        assert made.endless is not None and len(made) == 0
        assert made.endless(50.0).arrival[-1] < 50 * SECOND
        with pytest.raises(ScenarioError, match="have no end"):
            made.summary()


def test_changes_of_a_workload_without_end_come_with_its_rows() -> None:
    rich = sessions(shared_prefixes(poisson(5), groups=3, prefix_tokens=90), turns=2).scaled(1.5, seed=1)
    assert rich.endless is not None
    drawn = rich.endless(100.0).check()
    plain = poisson(5, duration_s=100)
    again = sessions(shared_prefixes(plain, groups=3, prefix_tokens=90), turns=2).scaled(1.5, seed=1)
    assert drawn.arrival.tolist() == again.arrival.tolist() and drawn.session is not None
    assert drawn.prefixes is not None and again.prefixes is not None
    assert drawn.prefixes.ids.tolist() == again.prefixes.ids.tolist()
    for change in (poisson(5).thin(0.5), poisson(5).superpose(2), poisson(5).at_rate(9.0), poisson(5).head(7)):
        assert change.endless is not None and len(change.endless(20.0)) > 5
