"""Recorded traces against the figures published with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.workload import read, read_lengths


# Requests, requests per second, cv of gaps, mean prompt, mean output: README of the data.
@pytest.mark.parametrize(
    ("name", "requests", "rate", "cv", "prompt", "output"),
    [
        ("azure_llm_2023/conv.csv.gz", 14176, 5.907, 1.078, 1195, 202),
        ("azure_llm_2023/code.csv.gz", 7491, 3.131, 12.575, 2040, 28),
        ("mooncake/conversation_trace.jsonl.gz", 7851, 3.275, 2.971, 12428, 347),
        ("mooncake/synthetic_trace.jsonl.gz", 2600, 3.818, 1.013, 13186, 184),
    ],
)
def test_published_figures(
    data_dir: Path, name: str, requests: int, rate: float, cv: float, prompt: float, output: float
) -> None:
    told = read(data_dir / name).summary()
    assert told["requests"] == requests
    assert told["rate"] == pytest.approx(rate, abs=0.003)
    assert told["cv"] == pytest.approx(cv, abs=0.001)
    assert told["prompt_tokens"]["mean"] == pytest.approx(prompt, abs=0.5)
    assert told["output_tokens"]["mean"] == pytest.approx(output, abs=0.51)


@pytest.mark.parametrize("name", ["conversation", "synthetic"])
def test_scaling_keeps_the_reachable_hit_rate(data_dir: Path, name: str) -> None:
    trace = read(data_dir / f"mooncake/{name}_trace.jsonl.gz")
    reachable = trace.reachable_hit_rate(512)
    # Whole sessions keep it where single requests would lose half; copies keep it but for the order of rows.
    assert trace.thin(0.25, seed=1).check().reachable_hit_rate(512) == pytest.approx(reachable, abs=0.06)
    assert trace.superpose(2, seed=1).check().reachable_hit_rate(512) == pytest.approx(reachable, abs=0.0005)
    doubled = trace.scaled(2.0, seed=1).summary()["rate"]
    assert doubled == pytest.approx(2 * trace.summary()["rate"], rel=0.01)


def test_recorded_lengths(data_dir: Path) -> None:
    pairs = read_lengths(data_dir / "length_tables/sharegpt_8k.parquet")
    assert len(pairs.prompt) == 21553
    assert pairs.prompt.mean() == pytest.approx(2342, abs=1) and pairs.output.mean() == pytest.approx(439, abs=1)
