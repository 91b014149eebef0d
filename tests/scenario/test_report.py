"""The pages that the commands write say what their result JSON says."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from poise.catalogue import device, model
from poise.cli import main
from poise.core.spec import Cluster, Pool
from poise.report.figures import COMPARED, E2E, TTFT
from poise.report.story import show_lines
from poise.report.wording import duration
from poise.scenario.story import tell
from poise.scenario.write import pool_names

from ..report.reader import Reader, read

SCENARIO = """\
model: poise/tiny
cluster: {pools: [{device: H100, replicas: 3}], faults: [{at_s: 0.1, kind: lost, replica: 2}]}
workload:
  poisson: {rate: 200, requests: 80, prompt_tokens: {uniform: {low: 50, high: 900}}, output_tokens: 20}
  shared_prefixes: {groups: 4, prefix_tokens: 500}
policies: {router: [least_requests, round_robin]}
slo: {ttft_s: 0.05, tpot_s: 0.01}
run: {seeds: 2}
compare: {loads: [0.5, 1]}
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    (folder / "scenario.yaml").write_text(SCENARIO)
    assert main(["compare", str(folder / "scenario.yaml"), "--out", str(folder / "out"), "--jobs", "1", "-q"]) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulated")
    (folder / "scenario.yaml").write_text(SCENARIO)
    scenario, out = str(folder / "scenario.yaml"), str(folder / "out")
    assert main(["simulate", scenario, "--router", "least_requests", "--seed", "0", "--out", out, "-q"]) == 0
    return folder / "out"


def written(folder: Path) -> tuple[Reader, dict[str, Any]]:
    return read((folder / "report.html").read_text()), json.loads((folder / "result.json").read_text())


def test_a_comparison_has_its_figures_verdicts_and_limits(compared: Path) -> None:
    reader, result = written(compared)
    summary, collapse = reader.sections["summary"], " ".join(reader.sections["collapse"])
    cells = {value for tag, name, value in reader.attributes if (tag, name) == ("td", "data-v")}
    for at in result["loads"]:
        assert any(text.startswith(f"Load {at['load']:g}: ") for text in summary)
        for name, figures in at["policies"].items():
            rate = f"load {at['load']:g} ({at['rate']:.4g} req/s)"
            shown = f"{name}\n{TTFT[4].label}: {TTFT[4].text(figures)} {TTFT[4].margin(figures)}\n{rate}"
            assert shown in reader.texts
            for figure in COMPARED:
                if figure.value(figures) is not None:
                    assert f"{figure.value(figures):.9g}" in cells
        best = at["verdict"]["winner"] or at["verdict"]["best"]
        assert any(best in text for text in summary if "SLO met" in text)
    for name, found in result["collapse"].items():
        for probe in found["probes"]:
            assert any(each.startswith(f"{name}\nload {probe['load']:g}: ") for each in reader.texts)
    assert "A load is carried when" in collapse


def test_a_comparison_has_maps_bars_and_slow_requests_of_every_policy_and_load(compared: Path) -> None:
    reader, result = written(compared)
    maps = [value for tag, name, value in reader.attributes if (tag, name) == ("svg", "aria-label") and "by" in value]
    assert len([each for each in maps if "by replica" in each]) == 3 * 2 * len(result["loads"])
    assert "replica not up" in reader.text, "one is lost"
    words = reader.sections["where-time-went"]
    for at in result["loads"]:
        for name, figures in at["policies"].items():
            first = figures["per_seed"][0]
            assert f"{name}: {duration(first['e2e_s']['mean'])}" in words
            assert f"{name}: {duration(first['ttft_s']['mean'])}" in words
            assert "blame" not in first, "the result says it only where it was asked"
    assert reader.sections["slowest"].count("By TTFT") == 2 * len(result["loads"])


def test_a_run_has_the_stories_of_its_slowest_requests(simulated: Path) -> None:
    reader, result = written(simulated)
    frame = pl.read_parquet(simulated / "requests.parquet").filter(status="finished")
    slowest = frame.sort(["ttft_s", "arrival_s"], descending=[True, False])["request"][0]
    words = reader.sections["slowest"]
    assert words[words.index("events") + 1] == str(slowest)
    out = io.StringIO()
    show_lines(tell(simulated, slowest, "least_requests"), f"Request {slowest}", out)
    life, _, closing = out.getvalue().strip().rpartition("\n")
    assert {life, closing} <= set(words)
    summary = reader.sections["summary"]
    assert summary[summary.index(E2E[4].label) + 1] == E2E[4].text(result)


def test_blame_is_in_the_page_and_elsewhere_only_where_it_was_requested(simulated: Path) -> None:
    reader, result = written(simulated)
    assert f"least_requests: {duration(result['e2e_s']['mean'])}" in reader.sections["where-time-went"]
    assert "blame" not in result
    assert not [name for name in pl.read_parquet(simulated / "requests.parquet").columns if name.startswith("rest_")]


def test_a_long_run_is_not_simulated_again_for_stories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poise.scenario.story.MOST", 79)
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    out = str(tmp_path / "out")
    args = ["simulate", str(tmp_path / "scenario.yaml"), "--router", "round_robin", "--seed", "0", "--out", out, "-q"]
    assert main(args) == 0
    reader, _ = written(tmp_path / "out")
    assert "Their stories" not in reader.text
    assert "Where their time went" in reader.text


def test_pools_are_called_by_name_or_role() -> None:
    def cluster(*pools: Any) -> Cluster:
        return Cluster(tuple(Pool(model("llama-3.1-8b"), device("H100"), **pool) for pool in pools))

    assert pool_names(cluster({"replicas": 3})) == []
    split = cluster({"role": "prefill"}, {"role": "decode", "replicas": 2})
    assert pool_names(split) == ["prefill", "decode", "decode"]
    assert pool_names(cluster({"name": "old"}, {"name": "new"})) == ["old", "new"]
    assert pool_names(cluster({}, {"replicas": 2})) == ["mixed 0", "mixed 1", "mixed 1"]
