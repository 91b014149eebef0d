"""Intervals as distributions of measured over predicted."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.intervals import Conditions, Interval, interval_of
from poise.intervals.conditions import FIGURES
from poise.intervals.fit import calibrate
from poise.intervals.interval import LEVELS
from poise.intervals.saved import load, text_of
from poise.intervals.shipped import shipped
from tests.intervals.made import made

RISING = st.lists(st.floats(0.001, 0.3), min_size=len(LEVELS), max_size=len(LEVELS)).map(
    lambda steps: Interval(tuple(sum(steps[: at + 1]) - sum(steps) / 2 for at in range(len(steps))))
)


@given(RISING, st.floats(0.02, 0.98))
def test_share_and_factor_are_inverse(interval: Interval, share: float) -> None:
    assert interval.below(interval.factor(share)) == pytest.approx(share, abs=1e-6)


@given(RISING, st.floats(0.1, 0.9), st.floats(0.01, 100.0))
def test_a_larger_confidence_has_a_wider_interval(interval: Interval, confidence: float, predicted: float) -> None:
    inner, outer = interval.bounds(predicted, confidence), interval.bounds(predicted, confidence + 0.05)
    assert outer.low < inner.low < inner.high < outer.high


@given(RISING, st.floats(-1.0, 1.0), st.floats(0.1, 1.0))
def test_narrowed_moves_the_middle_and_scales_the_width(interval: Interval, shift: float, scale: float) -> None:
    found = interval.narrowed(shift, scale)
    middle = LEVELS.index(0.5)
    assert found.logs[middle] == pytest.approx(interval.logs[middle] + shift)
    assert found.width == pytest.approx(interval.width**scale)


@pytest.mark.parametrize("figure", FIGURES)
def test_what_ships_has_an_interval_for_every_figure(figure: str) -> None:
    found = interval_of(Conditions(figure))  # type: ignore[arg-type]
    assert 1.0 < found.width < 1000
    assert list(found.logs) == sorted(found.logs)
    assert shipped().about["rows"]


def test_a_file_gives_back_the_calibration(tmp_path: Path) -> None:
    calibration = calibrate(made(12, 5), {"made": "here"})
    path = tmp_path / "calibration.json"
    path.write_text(text_of(calibration))
    found, of = load(path), Conditions("tpot", model="m3", device="d4")
    assert found.interval(of).logs == pytest.approx(calibration.interval(of).logs, abs=0.05)
    assert text_of(found) == text_of(load(path))


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": 1, "levels": []}'])
def test_another_file_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"bad\.json.*fit_intervals") as caught:
        load(path)
    assert "\n" not in str(caught.value)
