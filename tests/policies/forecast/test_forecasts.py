"""Forecasts of the rate: what came, what comes, what comes with an error."""

from __future__ import annotations

from statistics import median

import pytest

from poise.core.errors import PolicyError
from poise.core.event import Arrived
from poise.core.units import SECOND
from poise.policies.find import build, names
from poise.policies.forecast.constant import Constant
from poise.policies.forecast.noisy import Noisy
from poise.policies.forecast.oracle import Oracle
from poise.policies.forecast.recent import Recent
from poise.testing import a_chance, a_request


def truth(since: int, until: int) -> int:
    """Three a second."""
    return 3 * (until - since) // SECOND


def test_recent_is_the_mean_of_its_window() -> None:
    forecast = Recent(window_s=10)
    assert forecast.forecast(SECOND, 2 * SECOND, a_chance()) == 0
    for number in range(20):
        forecast.observe(Arrived(number * SECOND, a_request(id=number)))
        forecast.observe(Arrived(number * SECOND, a_request(id=number), 1))
    assert forecast.forecast(20 * SECOND, 90 * SECOND, a_chance()) == pytest.approx(0.9)  # the one at 10 s is just out


def test_before_a_window_has_passed_it_is_the_mean_so_far() -> None:
    forecast = Recent(window_s=100)
    for number in range(4):
        forecast.observe(Arrived((10 + number) * SECOND, a_request(id=number)))
    assert forecast.forecast(14 * SECOND, 90 * SECOND, a_chance()) == 1.0


def test_constant_oracle_and_noisy() -> None:
    assert Constant(7.5).forecast(0, SECOND, a_chance()) == 7.5
    oracle, noisy = Oracle(), Noisy(sigma=0.4)
    oracle.reveal(truth)
    noisy.reveal(truth)
    assert oracle.forecast(SECOND, 11 * SECOND, a_chance()) == 3.0
    forecasts = [noisy.forecast(0, 10 * SECOND, a_chance(key=key)) for key in range(2000)]
    assert median(forecasts) == pytest.approx(3.0, rel=0.05)
    assert 0.6 < sum(2.0 < each < 4.5 for each in forecasts) / len(forecasts) < 0.8  # a factor of 1.5 is a σ of 0.4
    assert noisy.forecast(0, 10 * SECOND, a_chance(key=5)) == forecasts[5]


@pytest.mark.parametrize("name", ["oracle", "noisy"])
def test_only_a_simulation_knows_the_truth(name: str) -> None:
    assert name in names("forecast")
    with pytest.raises(PolicyError, match="only a simulation knows"):
        build("forecast", name).forecast(0, SECOND, a_chance())
