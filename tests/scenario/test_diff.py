"""`poise diff` names what was planted, and nothing where nothing was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.cli import main
from poise.report.cause import TEXTS
from poise.report.diff import Diff
from poise.report.difference import sentence
from poise.scenario.diff import compare

SHARED = """\
model: poise/tiny
cluster: {pools: [{device: H100, replicas: 3}]}
workload:
  poisson: {rate: 400, requests: 1500, prompt_tokens: {uniform: {low: 50, high: 900}}, output_tokens: 40}
  shared_prefixes: {groups: 8, prefix_tokens: 2500}
policies: {router: prefix_cache}
run: {seeds: 1}
"""

PAIRS = """\
model: poise/tiny
cluster:
  pools: [{device: H100, replicas: 2, role: prefill}, {device: H100, replicas: 2, role: decode}]
  link_gb_s: 50
workload: {poisson: {rate: 100, requests: 600, prompt_tokens: {uniform: {low: 500, high: 3500}}, output_tokens: 40}}
run: {seeds: 1}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shared.yaml").write_text(SHARED)
    (tmp_path / "pairs.yaml").write_text(PAIRS)
    return tmp_path


def planted(scenario: str, *sets: str) -> Diff:
    return compare(Path(scenario), None, list(sets))[2]


@pytest.mark.parametrize(
    ("scenario", "change", "cause"),
    [
        ("pairs.yaml", "cluster.link_gb_s=0.2", "link"),
        ("shared.yaml", "engine.prefix_caching=false", "miss"),
        ("shared.yaml", "cluster.faults=[{at_s: 2, kind: lost, replica: 1}]", "lost"),
        ("shared.yaml", "cluster.pools.0.kv=fp8", "decode"),
        ("shared.yaml", "engine.max_sequences=4", "queue"),
    ],
)
def test_what_was_planted_is_named_first(folder: Path, scenario: str, change: str, cause: str) -> None:
    diff = planted(scenario, change)
    assert diff.cause is not None and diff.cause.name == cause
    assert f"First cause: {TEXTS[cause]} (" in sentence(diff)
    e2e, parts = diff.figures["e2e_s.mean"], diff.parts
    assert sum(part.mean.by for part in parts) == pytest.approx(e2e.by, rel=1e-9)
    assert abs(e2e.by) > diff.margin


def test_a_lost_replica_is_foremost_for_those_who_were_there(folder: Path) -> None:
    diff = planted("shared.yaml", "cluster.faults=[{at_s: 2, kind: lost, replica: 1}]")
    assert diff.splits[0].by == "time of arrival"
    assert float(diff.splits[0].groups[0].name.split()[0]) > 1.5
    lost = next(part for part in diff.parts if (part.stretch, part.name) == ("rest", "lost"))
    assert lost.mean.before == 0 < lost.mean.after


@pytest.mark.parametrize("change", ["engine.token_budget=8192", "slo.ttft_s=1", "belief.delay_s=0.05"])
def test_nothing_planted_is_no_difference(folder: Path, change: str) -> None:
    diff = planted("shared.yaml", change)
    assert diff.cause is None and diff.margin == 0
    assert sentence(diff) == "No significant difference: the mean end-to-end time is the same in A and B."


def test_luck_is_no_difference(folder: Path) -> None:
    """A recorded load under two seeds: only ties are broken otherwise."""
    rows = "".join(f"{at * 0.0021:.4f},{300 + at * 37 % 700},{20 + at * 13 % 60}\n" for at in range(1200))
    Path("trace.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}")
    Path("trace.yaml").write_text(SHARED.split("workload:")[0] + "workload: {trace: trace.csv}\nrun: {seeds: [1]}\n")
    diff = planted("trace.yaml", "run.seeds=[2]")
    e2e = diff.figures["e2e_s.mean"]
    assert 0 < abs(e2e.by) <= diff.margin
    assert diff.cause is None
    assert sentence(diff).startswith("No significant difference: the mean end-to-end time changes by ")


def test_saved_results_give_what_scenarios_give(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change = "engine.prefix_caching=false"
    assert main(["simulate", "shared.yaml", "--out", "a", "--blame", "-q"]) == 0
    assert main(["simulate", "shared.yaml", "--set", change, "--out", "b", "--blame", "-q"]) == 0
    assert main(["diff", "a", "b", "--json", "-"]) == 0
    saved = json.loads(capsys.readouterr().out)
    assert main(["diff", "shared.yaml", "--set", change, "--json", "diff.json"]) == 0
    printed = capsys.readouterr().out
    simulated = json.loads(Path("diff.json").read_text())
    assert {**saved, "a": "", "b": ""} == {**simulated, "a": "", "b": ""}
    assert saved["cause"]["name"] == "miss" and saved["sentence"] in printed
    assert printed.startswith("A: shared.yaml\nB: shared.yaml --set engine.prefix_caching=false\n")


def test_what_cannot_be_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*argv: str) -> str:
        assert main(["diff", *argv]) == 2
        return capsys.readouterr().err

    assert main(["simulate", "shared.yaml", "--out", "plain", "-q"]) == 0
    assert "give a result of --blame" in refused("plain", "plain")
    Path("rows.parquet").write_text("arrival_s,prompt_tokens")
    assert "rows.parquet: is not a Parquet file (" in refused("rows.parquet", "plain")
    assert "has no requests.parquet; give a folder" in refused(".", "plain")
    assert "is compared with nothing; give a second result or scenario" in refused("shared.yaml")
    assert "--set makes B out of A" in refused("shared.yaml", "plain", "--set", "slo.ttft_s=1")
    assert "nowhere: no such file or folder; give a result" in refused("nowhere", "plain")
    assert "give the scenario, as in plain/scenario.resolved.yaml" in refused("plain", "--set", "slo.ttft_s=1")
    assert "take two runs of one workload and seed" in refused("shared.yaml", "--set", "run.seeds=[5]")
    assert "or name one" in refused("shared.yaml", "--set", "policies.router=[round_robin, least_requests]")
