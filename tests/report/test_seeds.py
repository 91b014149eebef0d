"""Means over seeds and their intervals."""

import json
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.spec import Slo
from poise.report.metrics import combine, measure
from poise.report.seeds import fold, half_width, mean, t_quantile

from .runs import Row, a_cluster, a_run

# Two-sided critical values as printed in statistical tables (e.g. NIST/SEMATECH e-Handbook, table 1.3.6.7.2).
PUBLISHED = {
    0.90: {1: 6.314, 2: 2.920, 3: 2.353, 5: 2.015, 10: 1.812, 30: 1.697, 100: 1.660},
    0.95: {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 10: 2.228, 19: 2.093, 30: 2.042, 100: 1.984},
    0.99: {1: 63.657, 2: 9.925, 3: 5.841, 4: 4.604, 5: 4.032, 10: 3.169, 30: 2.750, 100: 2.626},
}


@pytest.mark.parametrize(
    ("confidence", "freedom", "expected"), [(c, n, t) for c, row in PUBLISHED.items() for n, t in row.items()]
)
def test_t_quantiles_are_the_published_ones(confidence, freedom, expected):
    assert round(t_quantile(freedom, confidence), 3) == expected


def test_t_approaches_the_normal_quantile():
    assert t_quantile(20_001) == pytest.approx(statistics.NormalDist().inv_cdf(0.975), abs=2e-4)
    assert t_quantile(20_000) == pytest.approx(statistics.NormalDist().inv_cdf(0.975), abs=2e-4)


@given(st.integers(1, 60), st.floats(0, 0.999))
def test_t_falls_with_freedom_and_rises_with_confidence(freedom, confidence):
    assert t_quantile(freedom + 1, confidence) <= t_quantile(freedom, confidence) * (1 + 1e-9) + 1e-12
    assert t_quantile(freedom, confidence) <= t_quantile(freedom, confidence + 0.0005) + 1e-12


@pytest.mark.parametrize(("freedom", "confidence"), [(0, 0.95), (3, 1.0), (3, -0.1)])
def test_t_refuses_what_has_no_quantile(freedom, confidence):
    with pytest.raises(ValueError, match="freedom"):
        t_quantile(freedom, confidence)


def test_half_width_on_paper():
    """Of 1, 2, 3: s = 1, so t(2) / √3."""
    assert half_width([1.0, 2.0, 3.0]) == pytest.approx(4.30265 / 3**0.5, rel=1e-6)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8), st.floats(0, 1e3))
def test_half_width_is_that_of_the_textbook(values, shift):
    expected = t_quantile(len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    assert half_width(values) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert half_width([value + shift for value in values]) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_the_mean_of_equal_values_is_that_value():
    assert mean([0.1] * 3) == 0.1
    assert mean([1, 2]) == 1.5


def test_fold_keeps_the_shape_and_what_is_missing():
    seeds = [{"a": 1, "b": {"c": None}, "d": [1, None]}, {"a": 3, "b": {"c": 1.0}, "d": [3, 4]}]
    assert fold(seeds, mean) == {"a": 2, "b": {"c": None}, "d": [2, None]}
    assert fold([[1], [1, 2]], mean) == []


def metrics_of(first_at: float):
    return measure(a_run([Row(0.0, 0.0, first_at, 5.0, prompt=10, output=3)]), a_cluster(), Slo(ttft_s=1.0))


def test_one_seed_has_no_interval_and_says_so():
    result = combine([metrics_of(1.0)])
    assert result["interval"] is None
    assert "one seed" in result["notes"]["interval"]
    assert result["ttft_s"]["p50"] == 1.0
    assert result["per_seed"] == [metrics_of(1.0).as_dict()]


def test_seeds_that_change_nothing_are_no_error_bars():
    result = combine([metrics_of(1.0)] * 3)
    assert result["interval"] is None
    assert "changed nothing" in result["notes"]["interval"]


def test_several_seeds_have_means_and_half_widths_of_the_same_shape():
    result = combine([metrics_of(at) for at in (1.0, 2.0, 3.0)])
    assert result["ttft_s"]["p99"] == 2.0
    assert result["interval"]["ttft_s"]["p99"] == pytest.approx(half_width([1.0, 2.0, 3.0]))
    assert result["slo_attainment"] == pytest.approx(1 / 3)
    assert result["interval"].keys() == result.keys() - {"notes", "interval", "per_seed"}
    assert json.loads(json.dumps(result)) == result


def test_a_figure_that_one_seed_lacks_is_none_in_the_mean():
    empty = measure(a_run([]), a_cluster(), Slo(ttft_s=1.0))
    result = combine([metrics_of(1.0), empty])
    assert result["ttft_s"]["p50"] is None
    assert result["interval"]["ttft_s"]["p50"] is None
    assert result["requests"] == 0.5
    assert "requests" in result["notes"]


def test_no_seed_at_all_is_a_mistake():
    with pytest.raises(ValueError, match="at least one seed"):
        combine([])
