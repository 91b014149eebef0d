"""One threshold caps at its clocks, releases below its band, and does no more while power stays high."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.cost.row import Row
from poise.policies.cap.one_threshold import OneThreshold
from poise.policies.cap.polca import Clocks, Polca
from poise.testing.cap import check_cap

LOWER = 1110 / 1410


def test_capped_above_and_free_below_its_band() -> None:
    knob = OneThreshold()
    story = [(0.89, 1.0), (0.90, LOWER), (0.86, LOWER), (0.95, LOWER), (0.84, LOWER), (0.83, 1.0), (0.86, 1.0)]
    for tick, (power, low) in enumerate(story):
        assert knob.cap(power, 60.0 * tick) == Clocks(low), power


@given(st.lists(st.floats(0.3, 1.2), min_size=1, max_size=60))
def test_it_caps_low_priority_only_where_polca_does(powers: list[float]) -> None:
    """Equal thresholds: whoever is at the lower clock here is so under POLCA, and its high priority is never slower."""
    one, two = OneThreshold(), Polca()
    for tick, power in enumerate(powers):
        mine, theirs = one.cap(power, 2.0 * tick), two.cap(power, 2.0 * tick)
        assert (mine.low == LOWER) == (theirs.low == LOWER)
        assert mine.high == 1.0 >= theirs.high


def test_without_a_further_step_a_long_peak_meets_the_brake() -> None:
    load = [0.5 + 0.0005 * min(tick, 644) for tick in range(1200)]
    assert Row(52).play(load, OneThreshold()).brakes > 0 == Row(52).play(load, Polca()).brakes


def test_the_contract_of_caps() -> None:
    check_cap(lambda: OneThreshold(high=LOWER))


@pytest.mark.parametrize("parameters", [{"at": 1.1}, {"release": 0.9}, {"low": 0}, {"high": 1.5}])
def test_parameters_that_cannot_be(parameters: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="give"):
        OneThreshold(**parameters)
