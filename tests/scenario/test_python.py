"""The face for Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import poise as ps
from poise.core.errors import ScenarioError, UserError
from poise.core.spec import Cluster as CoreCluster
from poise.scenario.build import build
from poise.scenario.load import load
from poise.scenario.python import Result


def _result(trace: bool = False) -> Result:
    cluster = ps.Cluster.of("H200", count=8).replicas(4, model=ps.models.llama3_8b, tensor=2)
    arrivals = ps.workload.poisson(rate=40.0, requests=30, prompt_tokens=ps.workload.lognormal(800, 0.9), seed=7)
    return ps.simulate(cluster, arrivals, ps.Policies(), cost=ps.cost.Roofline(), until=600.0, trace=trace)


def test_a_result_answers_questions(tmp_path: Path) -> None:
    run = _result()
    metrics = run.metrics(ps.Slo(ttft_s=0.5))
    assert run.ttft == metrics.ttft_s and run.tpot == metrics.tpot_s and run.e2e == metrics.e2e_s
    assert run.ttft.p99 is not None and 0 < run.ttft.p99 < 1
    assert run.goodput(ps.Slo(ttft_s=1e-9)) == 0
    assert run.goodput(ps.Slo(ttft_s=0.5)) == metrics.goodput_rps
    assert repr(run).startswith("<Result: 30 of 30 requests finished in ")
    run.save_requests(tmp_path / "requests.csv")
    assert len((tmp_path / "requests.csv").read_text().splitlines()) == 31
    run.save_timeline(tmp_path / "timeline.json")
    assert json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]


def test_a_trace_is_kept_or_made_by_running_again(tmp_path: Path) -> None:
    run = _result(trace=True)
    run.trace.save(tmp_path / "run.jsonl")
    assert len(list(ps.Trace.load(tmp_path / "run.jsonl").events)) >= 60
    assert run.run.records.ended_at == _result().run.records.ended_at
    assert _result().trace.lines == run.trace.lines


def test_arrivals_without_an_end_stop_where_the_simulation_does() -> None:
    cluster = ps.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b")
    endless = ps.workload.poisson(rate=5.0, seed=3)
    assert len(endless) == 0
    run = ps.simulate(cluster, endless, until=20.0)
    assert (
        run.run.records.arrived_at
        == ps.simulate(cluster, ps.workload.poisson(rate=5.0, duration_s=20.0, seed=3)).run.records.arrived_at
    )
    with pytest.raises(ScenarioError, match="no end; give requests or duration_s"):
        ps.simulate(cluster, endless)


def test_clusters_are_cut_from_machines() -> None:
    cluster = ps.Cluster.of("H100", count=16).replicas(3, model="llama-3.1-70b", tensor=4, weights="fp8")
    pool = cluster.pools[0]
    assert isinstance(cluster, CoreCluster) and cluster.replicas == 3
    assert (pool.device.name, pool.model.name, pool.devices, pool.weights) == (
        "H100-SXM-80GB", "meta-llama/Llama-3.1-70B", 4, "fp8",
    )  # fmt: skip
    with pytest.raises(ScenarioError, match=r"need 8 devices, and there are 4; .* count=8"):
        ps.Cluster.of("H100", count=4).replicas(4, model="phi-4", tensor=2)
    with pytest.raises(ScenarioError, match="give 1 or more"):
        ps.Cluster.of("H100", count=4).replicas(0, model="phi-4")


@pytest.mark.parametrize("engine", [None, "vllm", "sglang"])
def test_limits_are_a_data_rank_s_as_in_a_scenario(tmp_path: Path, engine: str | None) -> None:
    given = {} if engine is None else {"engine": ps.Engine(engine, token_budget=512, max_sequences=8)}
    pool = ps.Cluster.of("H100", count=2).replicas(1, model="qwen3-30b-a3b", data=2, expert=2, **given).pools[0]
    limits = "" if engine is None else f", engine: {{name: {engine}, token_budget: 512, max_sequences: 8}}"
    file = tmp_path / "scenario.yaml"
    file.write_text(
        f"model: qwen3-30b-a3b\ncluster: {{pools: [{{device: H100, data: 2, expert: 2{limits}}}]}}\n"
        "workload: {poisson: {rate: 1, requests: 2}}\n"
    )
    found = build(load(file)).cluster.pools[0]
    assert (pool.engine.token_budget, pool.engine.max_sequences) == (
        found.engine.token_budget, found.engine.max_sequences,
    )  # fmt: skip
    if engine is not None:
        assert found.engine.max_sequences == {"vllm": 16, "sglang": 8}[engine]


def test_clusters_add_up() -> None:
    one = ps.Cluster.of("H100", count=2).replicas(2, model="phi-4")
    other = ps.Cluster(one.pools, faults=(ps.Fault(3.0, "lost", 1),))
    both = one + other
    assert isinstance(both, ps.Cluster)
    assert both.replicas == 4 and both.faults == (ps.Fault(3.0, "lost", 3),)


def test_the_catalogues_are_at_hand() -> None:
    assert ps.models.llama3_8b is ps.models("llama-3-8b") is ps.models["meta-llama/Meta-Llama-3-8B"]
    assert ps.devices.H100 in list(ps.devices)
    assert "H100-SXM-80GB" in repr(ps.devices)
    with pytest.raises(AttributeError, match="nearest are"):
        _ = ps.models.lama
    with pytest.raises(UserError, match="nearest are"):
        ps.devices("H1000")
    assert not hasattr(ps.models, "__wrapped__")
