"""A profile and its inverse are each other's inverse; spikes and repetition are what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError, TraceError
from poise.workload import Profile, read_profile
from poise.workload.profile import spiked
from tests.workload.files import put

RATES = st.floats(0, 50).map(lambda rate: round(rate, 3))


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Ascending points with jumps, flat parts and parts without anybody."""
    gaps = draw(st.lists(st.sampled_from([0.0, 0.5, 3.0, 40.0]), min_size=1, max_size=6))
    at = np.cumsum([0.0, *gaps, 1.0])
    rates = draw(st.lists(RATES, min_size=len(at), max_size=len(at)))
    rates[-1] = max(rates[-1], 0.1)
    return Profile(at, np.array(rates))


@given(profiles(), st.lists(st.floats(0.001, 2.999), min_size=1, max_size=20))
def test_when_is_the_inverse_of_until(profile: Profile, shares: list[float]) -> None:
    counts = np.array(shares) * profile.total
    instants = profile.when(counts)
    again = [profile.until(instant) for instant in instants.tolist()]
    assert again == pytest.approx(counts.tolist(), rel=1e-6, abs=1e-6 * profile.total)
    order = np.argsort(counts)
    assert (np.diff(instants[order]) >= -1e-9 * profile.span_s).all()


@given(profiles())
def test_until_is_the_area_below_the_rate(profile: Profile) -> None:
    grid = np.linspace(0, profile.span_s, 20_001)
    middle = (grid[1:] + grid[:-1]) / 2
    area = np.interp(middle, profile.at, profile.rate).sum() * profile.span_s / 20_000
    assert profile.until(profile.span_s) == pytest.approx(profile.total)
    assert area == pytest.approx(profile.total, rel=0.01, abs=0.3)


def test_no_request_arrives_while_the_rate_is_nothing() -> None:
    profile = Profile.steps([10, 5, 10], [2, 0, 4])
    assert (profile.total, profile.span_s, profile.mean) == (60, 25, 60 / 25)
    instants = profile.when(np.array([19.999, 20.001, 40.0, 60.0, 61.0]))
    assert instants == pytest.approx([9.9995, 15.00025, 20.0, 25.0, 25.5], abs=1e-9)


@given(profiles(), st.floats(0, 0.9), st.floats(0.01, 0.09), st.floats(0, 20))
def test_a_spike_multiplies_its_stretch_and_no_other(
    profile: Profile, begin: float, lasting: float, factor: float
) -> None:
    low, high = begin * profile.span_s, (begin + lasting) * profile.span_s
    inside = profile.until(high) - profile.until(low)
    expected = profile.total + (factor - 1) * inside
    if expected > 1e-9:
        made = profile.spiked(low, high - low, factor)
        assert made.total == pytest.approx(expected, rel=1e-9, abs=1e-6)
        assert made.until(low) == pytest.approx(profile.until(low), abs=1e-6)
        assert made.until(high) - made.until(low) == pytest.approx(factor * inside, rel=1e-6, abs=1e-6)


def test_overlapping_spikes_multiply() -> None:
    flat = Profile.of([(0, 1), (10, 1)])
    both = spiked(flat, [{"at_s": 0, "lasting_s": 6, "factor": 2}, {"at_s": 4, "lasting_s": 6, "factor": 3}])
    assert both.total == pytest.approx(4 * 2 + 2 * 6 + 4 * 3)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([(0, 1)], "give at least two"),
        ([(0, 1), (5, 1, 2)], "give pairs"),
        ([(1, 1), (5, 1)], "give points that ascend from second 0"),
        ([(0, 1), (5, 1), (4, 1)], "ascend"),
        ([(0, 1), (5, -1)], "rate -1"),
        ([(0, 0), (5, 0)], "no rate above 0"),
        ([(0, 1), (5, float("nan"))], "no number"),
    ],
)
def test_wrong_points(points: list[tuple[float, ...]], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        Profile.of(points)


def test_a_spike_must_lie_within_the_profile() -> None:
    with pytest.raises(ScenarioError, match=r"a spike ends at 12 s, behind the profile's end at 10 s"):
        Profile.of([(0, 1), (10, 1)]).spiked(8, 4, 2)


COUNTS = "time_bin,requests\n3600,10\n7200,0\n10800,30\n"


def test_counts_become_steps(tmp_path: Path) -> None:
    profile = read_profile(put(tmp_path, "c.csv", COUNTS))
    assert (profile.total, profile.span_s) == (pytest.approx(40), 3 * 3600)
    assert profile.until(7200) == pytest.approx(10)
    last = read_profile(put(tmp_path, "c.csv", COUNTS), begin_s=3600, lasting_s=7200)
    assert (last.total, last.span_s) == (pytest.approx(30), 7200)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time_bin,requests\n0,1\n3600,-2\n", "line 3: requests is '-2'"),
        ("time_bin,requests\n0,1\nnoon,2\n", "line 3: time_bin is 'noon'"),
        ("time_bin,requests\n0,1\n7200,2\n3600,2\n", "line 4: begins at 3600"),
        ("time_bin,requests\n0,1\n", "two are needed"),
        ("time_bin,requests\n0,0\n5,0\n", "nobody arrives from 0 to 10"),
        ("hour,calls\n0,1\n", "found the columns calls, hour, but none of time_bin"),
    ],
)
def test_wrong_counts(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_profile(put(tmp_path, "c.csv", text))


def test_bad_counts_can_be_passed_over(tmp_path: Path) -> None:
    path = put(tmp_path, "c.csv", "time_bin,requests\n0,10\n60,x\n120,20\n180,20\n")
    assert read_profile(path, skip_bad=True).until(120) == pytest.approx(10)


# README of the data: 974 h, 892,939 requests, peak over mean 36.
def test_burstgpt_by_the_hour(data_dir: Path) -> None:
    profile = read_profile(data_dir / "burstgpt_hourly/hourly.csv.gz")
    assert profile.total == pytest.approx(892_939)
    assert profile.span_s == 974 * 3600
    assert profile.rate.max() * 3600 == pytest.approx(33_344)
    assert profile.rate.max() / profile.mean == pytest.approx(36, abs=0.5)
    per_hour = profile.rate[::2] * 3600
    assert per_hour.std() / per_hour.mean() == pytest.approx(2.8, abs=0.02)
    assert (per_hour == 0).sum() == 339
