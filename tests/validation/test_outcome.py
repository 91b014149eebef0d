"""Metrics by their names and units."""

from __future__ import annotations

import numpy as np
import pytest

from poise.validation.outcome import Outcome, plain_metric, statistics

OUTCOME = Outcome(
    {"ttft": {"mean": 0.5, "p99": 2.0}, "e2e": {"mean": 3.0}}, {"output": 800.0, "total": 1000.0, "prompt": 200.0}, 4
)


@pytest.mark.parametrize(
    ("metric", "unit", "value"),
    [
        ("ttft_ms", "ms", 500.0),
        ("ttft_mean_ms", "ms", 500.0),
        ("ttft_p99_ms", "ms", 2000.0),
        ("ttft_s", "s", 0.5),
        ("e2e_latency_mean_ms", "ms", 3000.0),
        ("batch_latency_ms", "ms", 3000.0),
        ("latency", "ms", 3000.0),
        ("latency", "s", 3.0),
        ("latency", "seconds", 3.0),
        ("E2E Latency", "Sec", 3.0),
        ("output token throughput", "tokens/s", 800.0),
        ("output_throughput", "tokens/s", 800.0),
        ("output_throughput_per_gpu", "tokens/s/GPU", 200.0),
        ("output_throughput", "tokens/s per 8-GPU node", 1600.0),
        ("total_token_throughput", "tokens/s", 1000.0),
        ("prefill_throughput_per_gpu", "tokens/s/GPU", 50.0),
        ("tpot_ms", "ms", None),
        ("ttft_p42_ms", "ms", None),
        ("happiness", "smiles", None),
    ],
)
def test_figures(metric: str, unit: str, value: float | None) -> None:
    assert OUTCOME.figure(metric, unit) == value


def test_weights_count_as_repeats() -> None:
    values, weights = np.array([3.0, 1.0, 2.0]), np.array([1.0, 5.0, 2.0])
    found = statistics(values, weights)
    repeated = np.repeat(values, weights.astype(int))
    assert found["mean"] == pytest.approx(repeated.mean())
    assert found["p50"] == np.percentile(repeated, 50, method="inverted_cdf")
    assert found["p90"] == np.percentile(repeated, 90, method="inverted_cdf")


def test_nothing_has_no_statistics() -> None:
    assert statistics(np.array([])) == {}


@pytest.mark.parametrize(
    ("expected", "meant"),
    [
        ("mean_ttft_ms", "ttft_mean_ms"), ("p99_e2el_ms", "e2e_p99_ms"), ("median_tpot", "tpot_median"),
        ("TTFT", "ttft"), ("output_tput_per_gpu", "output_throughput_per_gpu"),
        ("Time to first token", "ttft"), ("avg inter-token latency", "itl_mean"),
        ("ttft_p99_ms", "ttft_p99_ms"), ("total_token_throughput", "total_token_throughput"),
    ],
)  # fmt: skip
def test_metrics_as_benchmarks_name_them(expected: str, meant: str) -> None:
    assert plain_metric(expected) == meant
