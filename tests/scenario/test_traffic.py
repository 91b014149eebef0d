"""Workloads of scenarios: sources, clients, models, traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from poise.core.errors import ScenarioError
from poise.core.units import SECOND
from poise.scenario.build import build
from poise.scenario.load import load
from poise.scenario.run import run
from poise.scenario.traffic import Traffic

SOURCES = [
    ("poisson: {rate: 5, requests: 9}", 9),
    ("gamma: {rate: 5, cv: 0.5, requests: 9}", 9),
    ("constant: {gap_s: 0.5, duration_s: 2}", 4),
    ("closed: {concurrency: 2, requests: 9}", 9),
    ("all_at_once: {requests: 9}", 9),
    ("trace: t.csv", 6),
    ("trace: t.csv\n  limit: 4", 4),
    ("trace: t.csv\n  scale: 2", 12),
    ("poisson: {rate: 5, requests: 9}\n  sessions: {turns: 2}", 18),
]

CSV = "arrival_s,prompt_tokens,output_tokens,timeout_s\n" + "".join(f"{at},{at + 5},3,{at % 2}\n" for at in range(6))


def _traffic(tmp_path: Path, workload: str, pools: str = "[{device: H100}]") -> Traffic:
    if not (tmp_path / "t.csv").exists():
        (tmp_path / "t.csv").write_text(CSV)
    file = tmp_path / "s.yaml"
    file.write_text(f"model: poise/tiny\ncluster: {{pools: {pools}}}\nworkload:\n  {workload}\n")
    return build(load(file)).traffic


@pytest.mark.parametrize(("workload", "rows"), SOURCES)
def test_sources(tmp_path: Path, workload: str, rows: int) -> None:
    made = _traffic(tmp_path, workload).make(0)
    assert len(made.check()) == rows


def test_clients_of_generated_load(tmp_path: Path) -> None:
    clients = "timeout_s: 3\n  deadline_s: 2\n  retry: 4\n  priority: -1"
    made = _traffic(tmp_path, f"poisson: {{rate: 5, requests: 9}}\n  {clients}").make(0)
    assert made.timeout is not None and set(made.timeout.tolist()) == {3 * SECOND}
    assert made.deadline is not None and set(made.deadline.tolist()) == {2 * SECOND}
    assert made.priority is not None and set(made.priority.tolist()) == {-1}
    assert made.retry == 4


def test_a_trace_keeps_what_it_says_of_clients_itself(tmp_path: Path) -> None:
    made = _traffic(tmp_path, "trace: t.csv\n  timeout_s: 9").make(0)
    assert made.timeout is not None
    assert (made.timeout // SECOND).tolist() == [9, 1, 9, 1, 9, 1]


def test_only_an_unchanged_trace_is_the_same_under_every_seed(tmp_path: Path) -> None:
    for workload, recorded in (
        ("trace: t.csv", True),
        ("trace: t.csv\n  scale: 0.5", False),
        ("trace: t.csv\n  scale: 2\n  squeeze: true", True),
        ("trace: t.csv\n  shared_prefixes: {groups: 2, prefix_tokens: 9}", False),
        ("poisson: {rate: 5, requests: 9}", False),
    ):
        traffic = _traffic(tmp_path, workload)
        assert traffic.recorded is recorded
        one, other = traffic.make(1), traffic.make(2)
        same = np.array_equal(one.arrival, other.arrival) and np.array_equal(one.prompt, other.prompt)
        assert same or not recorded


def test_models_of_a_trace_are_found_by_any_of_their_names(tmp_path: Path) -> None:
    rows = "".join(f"{at},5,3,{name}\n" for at, name in enumerate(["llama-3.1-8b", "Tiny", "poise/tiny"]))
    (tmp_path / "t.csv").write_text(f"arrival_s,prompt_tokens,output_tokens,model\n{rows}")
    pools = "[{device: H100}, {device: H100, model: Llama-3.1-8B}]"
    made = _traffic(tmp_path, "trace: t.csv", pools).make(0)
    assert made.model is not None
    assert [made.models[model] for model in made.model] == ["meta-llama/Llama-3.1-8B", "poise/tiny", "poise/tiny"]
    ignored = _traffic(tmp_path, "trace: t.csv\n  ignore_model: true").make(0)
    assert ignored.model is None and not ignored.models


def test_what_a_generator_finds_wrong_is_placed(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"s\.yaml:5: workload\.sessions: sessions need open load"):
        _traffic(tmp_path, "closed: {concurrency: 5, requests: 9}\n  sessions: {turns: 2}").make(0)


TRACES = [
    "azure_llm_2023/conv.csv.gz",
    "azure_llm_2023/code.csv.gz",
    "mooncake/conversation_trace.jsonl.gz",
    "mooncake/synthetic_trace.jsonl.gz",
]


def _served(data_dir: Path, tmp_path: Path, trace: str, extra: str) -> None:
    """Run a recorded trace end to end and see that every request ended once and every token is accounted for."""
    file = tmp_path / "s.yaml"
    file.write_text(
        "model: llama-3.1-8b\ncluster: {pools: [{device: H100, replicas: 8}]}\n"
        f"workload: {{trace: '{data_dir / trace}'{extra}}}\npolicies: {{router: prefix_cache}}\n"
    )
    problem = build(load(file))
    workload = problem.traffic.make(0)
    told = run(problem).as_dict()
    assert told["requests"] == len(workload) == told["finished"] + told["rejected"]
    assert told["finished"] > 0.95 * len(workload)
    # Routers and queues change the order of rows a little, and with it who comes first.
    assert told["prefix_hit_rate"] <= 1.001 * workload.reachable_hit_rate()
    if not told["rejected"]:
        assert told["total_tokens_per_s"] * told["duration_s"] == pytest.approx(
            int(workload.prompt.sum()) + int(workload.output.sum())
        )


@pytest.mark.parametrize("trace", TRACES)
def test_the_beginning_of_each_recorded_trace(data_dir: Path, tmp_path: Path, trace: str) -> None:
    _served(data_dir, tmp_path, trace, ", limit: 150")


@pytest.mark.slow
@pytest.mark.parametrize("trace", TRACES)
def test_each_recorded_trace_as_a_whole(data_dir: Path, tmp_path: Path, trace: str) -> None:
    _served(data_dir, tmp_path, trace, "")
