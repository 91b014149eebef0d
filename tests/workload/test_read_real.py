"""Recorded traces against the figures published with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from poise.workload import poisson, read, read_lengths

# Requests, requests per second, cv of gaps, and mean, p50, p95, p99 of prompts and outputs: README of the data.
PUBLISHED = [
    ("azure_llm_2023/conv.csv.gz", 14176, 5.907, 1.078, (1195, 1015, 4085, 4121), (202, 115, 448, 598)),
    ("azure_llm_2023/code.csv.gz", 7491, 3.131, 12.575, (2040, 1465, 7163, 7436), (28, 13, 88, 248)),
    ("mooncake/conversation_trace.jsonl.gz", 7851, 3.275, 2.971, (12428, 7284, 40369, 89868), (347, 356, 712, 1168)),
    ("mooncake/synthetic_trace.jsonl.gz", 2600, 3.818, 1.013, (13186, 5823, 42884, 57555), (184, 135, 568, 776)),
]


@pytest.mark.parametrize(("name", "requests", "rate", "cv", "prompt", "output"), PUBLISHED)
def test_published_figures(
    data_dir: Path,
    name: str,
    requests: int,
    rate: float,
    cv: float,
    prompt: tuple[int, ...],
    output: tuple[int, ...],
) -> None:
    summary = read(data_dir / name).summary()
    assert summary["requests"] == requests
    assert summary["rate"] == pytest.approx(rate, abs=0.003)
    assert summary["cv"] == pytest.approx(cv, abs=0.001)
    # Published percentiles lie between two values where ours are one of them.
    for found, figures in (("prompt_tokens", prompt), ("output_tokens", output)):
        assert [summary[found][each] for each in ("mean", "p50", "p95", "p99")] == pytest.approx(
            figures, rel=0.002, abs=1
        )


@pytest.mark.parametrize("name", ["conversation", "synthetic"])
def test_scaling_keeps_the_reachable_hit_rate(data_dir: Path, name: str) -> None:
    trace = read(data_dir / f"mooncake/{name}_trace.jsonl.gz")
    reachable = trace.reachable_hit_rate(512)
    # Whole sessions keep it where single requests would lose half; copies keep it but for the order of rows.
    assert trace.thin(0.25, seed=1).check().reachable_hit_rate(512) == pytest.approx(reachable, abs=0.06)
    assert trace.superpose(2, seed=1).check().reachable_hit_rate(512) == pytest.approx(reachable, abs=0.0005)
    doubled = trace.scaled(2.0, seed=1).summary()["rate"]
    assert doubled == pytest.approx(2 * trace.summary()["rate"], rel=0.01)


@pytest.mark.parametrize(
    ("name", "rows", "bad", "prompt", "output"),
    [
        ("sharegpt_8k", 21553, 0, (2342, 1724, 6567, 7431), (439, 415, 921, 998)),
        ("arxiv_summarization", 19813, 0, (2581, 2720, 3811, 3932), (294, 167, 769, 3260)),
        ("alpaca", 33191, 0, (14, 11, 29, 57), (48, 37, 126, 208)),
        ("lmsys_short_turns", 60000, 114, (43, 18, 194, 243), (94, 75, 235, 252)),
    ],
)
def test_tables_of_lengths(
    data_dir: Path, name: str, rows: int, bad: int, prompt: tuple[int, ...], output: tuple[int, ...]
) -> None:
    pairs = read_lengths(data_dir / f"length_tables/{name}.parquet", skip_bad=True)
    assert len(pairs.prompt) == rows - bad
    summary = poisson(5, requests=rows, lengths=pairs, seed=1).summary()
    for column, found, figures in ((pairs.prompt, "prompt_tokens", prompt), (pairs.output, "output_tokens", output)):
        own = [column.sum() / rows, *np.percentile(column, [50, 95, 99])]  # bad rows have no tokens
        assert own == pytest.approx(figures, rel=0.002, abs=0.51)
        # Drawn with replacement, 20,000 or more: ranks err by a third of a per cent at most.
        assert summary[found]["mean"] == pytest.approx(own[0], rel=0.05)
        for name, rank in (("p50", 50), ("p95", 95)):
            low, high = np.percentile(column, [rank - 1.5, rank + 1.5])
            assert low <= summary[found][name] <= high
