"""POLCA's steps one by one, and rows that it keeps within their budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.cost.row import Row
from poise.policies.cap.polca import Clocks, Polca

LOW, LOWER, HIGH = 1275 / 1410, 1110 / 1410, 1305 / 1410


def test_up_at_the_thresholds_and_down_below_them() -> None:
    polca = Polca()
    story = [
        (0, 0.79, Clocks()),
        (2, 0.81, Clocks(LOW)),
        (4, 0.76, Clocks(LOW)),  # within the release
        (6, 0.90, Clocks(LOWER)),
        (20, 0.90, Clocks(LOWER)),  # not yet in effect
        (48, 0.90, Clocks(LOWER, HIGH)),
        (50, 0.85, Clocks(LOWER, HIGH)),  # within the release
        (52, 0.83, Clocks(LOW)),
        (54, 0.76, Clocks(LOW)),
        (56, 0.74, Clocks()),
    ]
    for now, power, clocks in story:
        assert polca.cap(power, now) == clocks, now


@given(st.lists(st.floats(0.3, 1.2), min_size=1, max_size=60))
def test_priority_and_hysteresis(powers: list[float]) -> None:
    """High priority never slows before low, and nothing is taken back but below a threshold less its release."""
    polca, last = Polca(settle_s=4.0), Clocks()
    for tick, power in enumerate(powers):
        found = polca.cap(power, 2.0 * tick)
        assert found.high == 1.0 or found.low == LOWER
        if found > last:
            assert power < (0.84 if last.low == LOWER else 0.75)
        if power > 0.80:
            assert found.low <= LOW
        if power > 0.89:
            assert found.low == LOWER
        last = found


@given(st.integers(1, 80), st.lists(st.floats(0.4, 1.0), min_size=1, max_size=50))
def test_a_row_without_a_knob_draws_what_its_servers_draw(servers: int, load: list[float]) -> None:
    played = Row(servers).play(load)
    assert played.powers == pytest.approx([servers / 40 * each for each in load])
    assert played.clocks == {(1.0, 1.0): 1.0}


@given(st.lists(st.floats(0.4, 1.0), min_size=1, max_size=80))
def test_a_knob_never_draws_more_and_time_at_clocks_sums_to_one(load: list[float]) -> None:
    row = Row(52, delay_s=4.0)
    free, held = row.play(load), row.play(load, Polca(settle_s=4.0))
    assert all(one <= two + 1e-12 for one, two in zip(held.powers, free.powers, strict=True))
    assert sum(held.clocks.values()) == pytest.approx(1.0)


def test_a_slow_rise_is_held_and_a_command_takes_its_time() -> None:
    load = [0.5 + 0.0005 * min(tick, 580) for tick in range(900)]
    row = Row(52)
    assert row.play(load).brakes == 1
    held = row.play(load, Polca())
    assert held.brakes == 0
    capped = next(tick for tick, power in enumerate(held.powers) if power > 0.80)
    before, after = row.play(load[: capped + 20]).powers, held.powers
    assert after[capped + 19] == before[capped + 19], "38 s later it still draws as much"
    assert after[capped + 20] < row.play(load).powers[capped + 20]


def test_a_rise_within_the_delay_meets_the_brake() -> None:
    load = [0.5] * 10 + [0.85] * 30
    assert Row(52).play(load, Polca()).brakes == 1
    assert Row(52, delay_s=0.0).play([0.5] * 10 + [0.75] * 30, Polca()).brakes == 0


def test_power_of_the_same_work_falls_less_than_peaks() -> None:
    assert Row(40, prompts=1.0).dynamic(0.8) == pytest.approx(0.8**0.2)
    assert Row(40, prompts=0.0).dynamic(0.8) == pytest.approx(0.8**1.2)


@pytest.mark.parametrize(
    "parameters", [{"first": 0.9}, {"release": 0.9}, {"second": 1.1}, {"lower": 0.95}, {"high": 0}]
)
def test_parameters_that_cannot_be(parameters: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="give"):
        Polca(**parameters)


def test_rows_that_cannot_be() -> None:
    with pytest.raises(UserError, match="servers and tick_s are above 0"):
        Row(0)
    with pytest.raises(UserError, match="low, floor and prompts are parts of 1"):
        Row(40, low=1.5)
