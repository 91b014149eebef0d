"""Distributions have the moments and bounds they promise, and say what is wrong with a specification."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.workload.draw import stream
from poise.workload.lengths import (
    NAMED,
    Distribution,
    Empirical,
    Exponential,
    Fixed,
    Geometric,
    Llumnix,
    Lognormal,
    Pareto,
    Uniform,
    Zipf,
    length,
    tokens,
)
from poise.workload.pareto import SIZES

ROWS = 40_000


def drawn(distribution: Distribution, seed: int = 1) -> np.ndarray[Any, Any]:
    return distribution.draw(stream(seed, "test"), ROWS)


# Each mean is known in closed form; with 40,000 draws 4 % is more than five standard errors of the widest (cv 2).
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("distribution", "mean", "cv"),
    [
        (Fixed(7), 7, 0),
        (Uniform(10, 20), 15, (120 / 12) ** 0.5 / 15),
        (Lognormal(800, 0.9), 800, 0.9),
        (Lognormal(50, 2.0), 50, 2.0),
        (Exponential(30), 30, 1.0),
        (Geometric(5), 5, (1 - 1 / 5) ** 0.5),
        (Zipf(1.0, 3), 3 / (1 + 1 / 2 + 1 / 3), None),
        (Zipf(0.0, 9), 5, None),
        (Empirical([1, 2, 6]), 3, (14 / 3) ** 0.5 / 3),
        (Pareto(10, 2.0, 1000), 2 * 10 * (1 - 0.01) / (1 - 0.01**2), None),
        (Pareto(10, 1.0, 1000), 10 * math.log(100) / (1 - 0.01), None),
    ],
)
def test_moments(distribution: Distribution, mean: float, cv: float | None, seed: int) -> None:
    values = drawn(distribution, seed)
    assert values.mean() == pytest.approx(mean, rel=0.04)
    if cv is not None:
        assert values.std() / values.mean() == pytest.approx(cv, rel=0.12)


def test_zipf_falls_with_the_rank() -> None:
    counts = np.bincount(drawn(Zipf(1.2, 5)).astype(int))[1:]
    expected = np.arange(1, 6) ** -1.2
    assert counts / ROWS == pytest.approx(expected / expected.sum(), rel=0.08)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 99))
def test_uniform_covers_its_range_and_no_more(low: int, more: int, seed: int) -> None:
    values = Uniform(low, low + more).draw(stream(seed, "test"), 500)
    assert values.min() >= low and values.max() <= low + more
    assert (values == np.floor(values)).all()


# Published: mean, p50, p80, p95, p99 (Llumnix, OSDI 2024).
@pytest.mark.parametrize(
    ("size", "mean", "quantiles"),
    [("S", 128, (38, 113, 413, 1464)), ("M", 256, (32, 173, 1288, 4208)), ("L", 512, (55, 582, 3113, 5166))],
)
def test_llumnix_fits_its_published_quantiles(size: str, mean: float, quantiles: tuple[int, ...]) -> None:
    fitted = SIZES[size].quantile(np.array([0.5, 0.8, 0.95, 0.99]))
    assert fitted == pytest.approx(quantiles, rel=0.1)
    assert drawn(Llumnix(size)).mean() == pytest.approx(mean, rel=0.1)


@given(st.floats(0.5, 50), st.floats(0.05, 4), st.floats(0, 500), st.integers(0, 99))
def test_pareto_keeps_its_ends(least: float, alpha: float, more: float, seed: int) -> None:
    values = Pareto(least, alpha, least + more).draw(stream(seed, "test"), 200)
    assert values.min() >= least * (1 - 1e-9) and values.max() <= (least + more) * (1 + 1e-9)


def test_both_ends_of_uniform_are_drawn() -> None:
    assert set(drawn(Uniform(3, 5)).tolist()) == {3.0, 4.0, 5.0}


def test_max_cuts() -> None:
    assert drawn(Lognormal(100, 2.0, max=150)).max() == 150
    assert drawn(Exponential(100, max=150)).max() == 150


def test_empirical_draws_only_members() -> None:
    assert set(drawn(Empirical([4, 9])).tolist()) == {4.0, 9.0}
    assert Empirical(np.array([4, 9])) == Empirical([4, 9])


@given(st.floats(0.01, 50), st.floats(0.01, 3), st.integers(0, 50))
def test_tokens_are_whole_and_at_least_one(mean: float, cv: float, seed: int) -> None:
    column = tokens(Lognormal(mean, cv), stream(seed, "x"), 200, "x")
    assert column.dtype == np.int32 and column.min() >= 1


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        (512, Fixed(512)),
        ({"fixed": 512}, Fixed(512)),
        ({"uniform": {"low": 1, "high": 9}}, Uniform(1, 9)),
        ({"lognormal": {"mean": 800, "cv": 0.9}}, Lognormal(800, 0.9)),
        ({"lognormal": {"mean": 800, "cv": 0.9, "max": 4096}}, Lognormal(800, 0.9, 4096)),
        ({"exponential": 20}, Exponential(20)),
        ({"geometric": {"mean": 4}}, Geometric(4)),
        ({"zipf": {"exponent": 1.1, "max": 64}}, Zipf(1.1, 64)),
        ({"empirical": [1, 2]}, Empirical([1, 2])),
        ({"empirical": {"values": [1, 2]}}, Empirical([1, 2])),
        ({"pareto": {"min": 4, "alpha": 0.5, "max": 900}}, Pareto(4, 0.5, 900)),
        ({"llumnix": "M"}, Llumnix("M")),
        (Geometric(3), Geometric(3)),
    ],
)
def test_specifications(spec: Any, meant: Distribution) -> None:
    assert length(spec) == meant


def test_every_named_distribution_is_covered_above() -> None:
    marks = test_specifications.pytestmark  # type: ignore[attr-defined]
    specs = [spec for spec, _ in marks[0].args[1] if isinstance(spec, dict)]
    assert {next(iter(spec)) for spec in specs} == set(NAMED)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("long", "give a number or one of"),
        (True, "must be a number"),
        (None, "give a number or one of"),
        (-1, "prompt_tokens is -1; it must be 0 or more"),
        (float("nan"), "must be finite"),
        ({}, "give exactly one of"),
        ({"lognormal": {"mean": 1, "cv": 1}, "fixed": 2}, "give exactly one of"),
        ({"normal": {"mean": 3}}, "['normal']"),
        ({"lognormal": {"mean": 800, "sd": 3}}, "lognormal has no parameter 'sd'; it takes mean, cv, max"),
        ({"lognormal": {"mean": 800}}, "lognormal lacks cv"),
        ({"lognormal": {"mean": -8, "cv": 1}}, "lognormal: mean is -8; it must be above 0"),
        ({"lognormal": {"mean": 8, "cv": "a"}}, "lognormal: cv is 'a'; it must be a number"),
        ({"uniform": {"low": 5, "high": 2}}, "high is 2, below low 5"),
        ({"uniform": {"low": 0.5, "high": 2}}, "low is 0.5; it must be a whole number"),
        ({"geometric": 0.5}, "it must be at least 1"),
        ({"zipf": {"exponent": 1, "max": 2, "min": 3}}, "max is 2, below min 3"),
        ({"empirical": []}, "at least one number"),
        ({"empirical": [3, "b"]}, "a value is 'b'"),
        ({"empirical": "abc"}, "at least one number"),
        ({"pareto": {"min": 9, "alpha": 1, "max": 4}}, "pareto: max is 4, below min 9"),
        ({"pareto": {"min": 9, "alpha": 0, "max": 40}}, "pareto: alpha is 0; it must be above 0"),
        ({"pareto": {"min": 9, "max": 40}}, "pareto lacks alpha; it takes min, alpha, max"),
        ({"llumnix": "XL"}, "llumnix: size is 'XL'; it must be S, M, L"),
        ({"llumnix": ["S"]}, "llumnix: size is ['S']"),
    ],
)
def test_wrong_specifications(spec: Any, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        length(spec, "prompt_tokens")
    assert message in str(caught.value)
    assert str(caught.value).startswith("prompt_tokens")


def test_lengths_beyond_a_column_are_refused() -> None:
    with pytest.raises(ScenarioError, match="prompt_tokens drew 3000000000"):
        tokens(Fixed(3e9), stream(0, "x"), 1, "prompt_tokens")
