"""BurstGPT's model against the hourly counts that it was fitted on, and its own rules."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.core.units import SECOND
from poise.workload import burstgpt
from poise.workload.burstgpt import DAY, FAILURES, GPT4, hour_factors

RECORD = Path(os.environ.get("POISE_DATA", "")) / "burstgpt_hourly" / "hourly.csv.gz"


def hourly(seed: int, hours: int = 974) -> np.ndarray:  # type: ignore[type-arg]
    """Counts of each hour at the record's mean."""
    made = burstgpt(917 / 3600, duration_s=hours * 3600, seed=seed, cv=1.0)
    return np.bincount(made.arrival // (3600 * SECOND), minlength=hours)


@pytest.mark.skipif(not RECORD.is_file(), reason="needs burstgpt_hourly/hourly.csv.gz in POISE_DATA")
def test_hours_vary_as_in_the_record() -> None:
    import polars as pl

    record = pl.read_csv(RECORD)["requests"].to_numpy()
    made = [hourly(seed) for seed in range(8)]

    def spread(counts: np.ndarray) -> float:  # type: ignore[type-arg]
        return float(counts.std() / counts.mean())

    def busiest(counts: np.ndarray) -> float:  # type: ignore[type-arg]
        return float(np.sort(counts)[::-1][: len(counts) // 20].sum() / counts.sum())

    assert spread(record) == pytest.approx(2.79, abs=0.01)
    assert np.median([spread(each) for each in made]) == pytest.approx(spread(record), rel=0.35)
    assert np.median([busiest(each) for each in made]) == pytest.approx(busiest(record), abs=0.15)
    of_day = np.array([record[hour::24].mean() for hour in range(24)]) / record.mean()
    assert np.allclose(of_day, DAY, atol=0.02)


@given(st.floats(0.0, 1.5), st.floats(0.0, 0.9))
@settings(max_examples=20, deadline=None)
def test_factors_have_mean_one_and_more_hours_begin_with_the_same(spread: float, memory: float) -> None:
    few, many = hour_factors(spread, memory, 64, 3), hour_factors(spread, memory, 128, 3)
    assert np.array_equal(few, many[:64])
    logs = (np.log(hour_factors(spread, memory, 20_000, 3)) + spread**2 / 2) / (spread or 1.0)
    assert logs.mean() == pytest.approx(0.0, abs=0.1)
    if spread > 0.01:
        assert logs.std() == pytest.approx(1.0, abs=0.06)
        assert np.corrcoef(logs[1:], logs[:-1])[0, 1] == pytest.approx(memory, abs=0.03)


def test_without_spread_a_day_has_its_wave_and_its_rate() -> None:
    made = burstgpt(2.0, spread=0.0, cv=1.0, duration_s=86_400, seed=5)
    counts = np.bincount(made.arrival // (3600 * SECOND), minlength=24)
    assert len(made) == pytest.approx(2 * 86_400, rel=0.02)
    assert np.allclose(counts / counts.mean(), DAY, atol=0.06)
    noon = burstgpt(2.0, spread=0.0, cv=0.0, begin_s=12 * 3600, duration_s=3600)
    assert len(noon) == pytest.approx(2 * 3600 * DAY[12], rel=0.01)


def test_models_and_failures() -> None:
    made = burstgpt(5.0, requests=20_000, seed=2)
    assert made.tenant is not None
    gpt4 = made.tenant == 1
    assert gpt4.mean() == pytest.approx(GPT4, abs=0.02)
    assert made.source["failed"] / len(made) == pytest.approx(FAILURES, abs=0.005)
    assert made.prompt[gpt4].mean() > made.prompt[~gpt4].mean(), "longer"
    well = made.output > 1
    assert made.output[well & gpt4].std() < made.output[well & ~gpt4].std(), "more even"
    assert (burstgpt(5.0, requests=100, failures=1.0).output == 1).all()
    fixed = burstgpt(5.0, requests=100, prompt_tokens=7, output_tokens=9, failures=0.0)
    assert set(fixed.prompt) == {7} and set(fixed.output) == {9}
    assert burstgpt(5.0, requests=500, max_tokens=50).output.max() <= 50


def test_it_is_checked_and_repeats() -> None:
    one, two = burstgpt(3.0, requests=300, seed=1).check(), burstgpt(3.0, requests=300, seed=1)
    assert np.array_equal(one.arrival, two.arrival) and np.array_equal(one.prompt, two.prompt)
    endless = burstgpt(3.0).endless
    assert endless is not None and len(endless(3600.0)) > 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rate": 0.0}, "rate"),
        ({"rate": 1.0, "memory": 1.0}, "memory is 1; give 0 or more, below 1"),
        ({"rate": 1.0, "spread": -1.0}, "spread is -1; give 0 or more"),
        ({"rate": 1.0, "gpt4": 1.5}, "gpt4 is 1.5, and it is a part"),
        ({"rate": 1.0, "failures": -0.1}, "failures is -0.1, and it is a part"),
    ],
)
def test_what_cannot_be(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        burstgpt(**parameters, requests=10)  # type: ignore[arg-type]
