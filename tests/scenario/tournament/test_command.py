"""`poise compare` of a tournament: screening, finals, going on, and what is wrong in a file in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from poise.cli import main
from poise.experiment.tournament.factor import alone
from poise.experiment.workers import Workers
from poise.scenario.tournament.command import play
from poise.scenario.tournament.read import read

FILE = """\
factors:
  router: [least_requests, round_robin, prefix_cache]
  batcher: [chunked, prefill_first]
  engine.token_budget: [8192, 512]
blocks:
  traffic:
    alike: {workload: {poisson: {rate: 60, duration_s: 2, prompt_tokens: 1500, output_tokens: 30}}}
    shared:
      workload:
        poisson: {rate: 60, duration_s: 2, prompt_tokens: 100, output_tokens: 30}
        shared_prefixes: {groups: 10, prefix_tokens: 2000}
    recorded: {workload: {trace: trace.csv, limit: 60}}
  cluster:
    two: {cluster: {pools: [{device: H100, replicas: 2}]}}
    three: {cluster: {pools: [{device: H100, replicas: 2}, {device: A100}]}}
scenario: {model: llama-3.1-8b, slo: {ttft_s: 0.2, tpot_s: 0.025}}
loads: [0.8, 1.2]
screen: {runs: 108}
finals: {finalists: 3, seeds: 2, longer: 2}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tournament and a trace."""
    folder = tmp_path_factory.mktemp("tournament")
    (folder / "tournament.yaml").write_text(FILE)
    rows = [f"{at * 0.02:.3f},{1500 + at % 7 * 200},{10 + at % 5}" for at in range(200)]
    (folder / "trace.csv").write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]) + "\n")
    return folder


def played(home: Path, *options: str) -> int:
    return main(["compare", str(home / "tournament.yaml"), "--jobs", "1", "--quiet", *options])


@pytest.fixture(scope="module")
def done(home: Path) -> Path:
    """The same with the tournament played out."""
    assert played(home, "--out", str(home / "out")) == 0
    return home


@pytest.fixture
def copied(done: Path, tmp_path: Path) -> Path:
    """A copy of what it wrote."""
    return Path(shutil.copytree(done / "out", tmp_path / "out"))


def result(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "result.json").read_text())
    return found


def test_a_tournament_is_screened_and_ranked(done: Path) -> None:
    found = result(done / "out")
    assert not found["interrupted"]
    assert found["factors"]["router"] == ["least_requests", "round_robin", "prefix_cache"]
    assert set(found["carried"]) == {f"{a} / {b}" for a in ("alike", "shared", "recorded") for b in ("two", "three")}
    # 5 combinations one factor at a time and 4 balanced ones, in 6 blocks at 2 loads; some may be the same
    assert 12 * 5 < found["screen"]["runs"] <= 12 * 9
    standings = found["finals"]["standings"]
    assert 1 < len(standings) <= 3 and "reference" in [each["name"] for each in standings]
    means = [each["mean"] for each in standings]
    assert means == sorted(means, reverse=True)
    for each in standings:
        own = [block[each["name"]] for block in found["finals"]["blocks"].values()]
        assert each["mean"] == pytest.approx(sum(own) / 6)
    assert standings[0]["name"] in found["finals"]["together"]


def test_effects_are_listed_for_all_blocks_and_for_each_kind_of_traffic(done: Path) -> None:
    screen = result(done / "out")["screen"]
    router = screen["effects"]["router"]
    assert router["least_requests"]["value"] == 0
    assert router["round_robin"]["half"] > 0
    parts = [router["round_robin"][name]["value"] for name in ("alike", "shared", "recorded")]
    assert router["round_robin"]["alone"]["value"] == pytest.approx(sum(parts) / 3)
    assert screen["effects"]["batcher"]["prefill_first"]["alone"]["value"] < 0
    assert set(screen["active"]) <= {"router", "batcher", "engine.token_budget"}


def test_it_goes_on_where_it_was_stopped_to_the_same_result(done: Path, copied: Path) -> None:
    file = copied / "runs.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[: len(lines) // 2]) + '\n{"print": "cut o')
    next((copied / "finals").rglob("cell.json")).unlink()
    assert played(done, "--out", str(copied), "--resume") == 0
    assert result(copied) == result(done / "out")
    again = file.read_text().splitlines()
    assert len(again) == len(lines) and again[: len(lines) // 2] == lines[: len(lines) // 2]


SMALL = ("screen.runs=16", "loads=[1]", "factors={router: [least_requests, round_robin], batcher: [chunked]}")


@pytest.mark.slow
def test_processes_change_nothing(home: Path) -> None:
    tournament = read(home / "tournament.yaml", SMALL)
    assert play(tournament).as_dict() == play(tournament, workers=Workers(2)).as_dict()


@pytest.mark.slow
def test_parts_are_merged_to_the_same_result(home: Path, tmp_path: Path) -> None:
    """The short runs are done in parts; what depends on all of them, the finals, by the merge."""
    options = [word for each in SMALL for word in ("--set", each)]
    assert played(home, *options, "--out", str(tmp_path / "alone")) == 0
    parts = [str(tmp_path / str(number)) for number in (1, 2)]
    for number, part in enumerate(parts, 1):
        assert played(home, *options, "--out", part, "--shard", f"{number}/2") == 0
    assert main(["merge", str(tmp_path / "out"), *parts, "--quiet", "--jobs", "1"]) == 0
    assert result(tmp_path / "out") == result(tmp_path / "alone")
    alone, joined = ((tmp_path / each / "runs.jsonl").read_text().splitlines() for each in ("alone", "out"))
    assert sorted(json.loads(line)["print"] for line in alone) == sorted(json.loads(line)["print"] for line in joined)


def test_the_table_says_who_is_best(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [word for each in SMALL for word in ("--set", each)]
    assert main(["compare", str(home / "tournament.yaml"), "--jobs", "1", *options]) == 0
    out = capsys.readouterr().out
    for expected in ("on average", "alone", "Finals", "The reference is least_requests, chunked."):
        assert expected in out


def test_an_existing_folder_needs_resume(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(done, "--out", str(done / "out")) == 2
    assert "add --resume" in capsys.readouterr().err


@pytest.mark.slow
def test_finals_of_another_length_are_run_anew(home: Path, tmp_path: Path) -> None:
    options = [word for each in SMALL for word in ("--set", each)]
    out = tmp_path / "out"
    assert played(home, *options, "--out", str(out)) == 0
    before, lines = result(out), (out / "runs.jsonl").read_text()
    longer = (*options, "--set", "finals.longer=3")
    assert played(home, *longer, "--out", str(out), "--resume") == 0
    assert result(out)["finals"] != before["finals"] and (out / "runs.jsonl").read_text() == lines
    assert played(home, *longer, "--out", str(tmp_path / "other")) == 0
    assert result(out) == result(tmp_path / "other")


WRONG = {
    "policies.router: 'leest_requests' is no router": (
        "--set",
        "factors.router=[leest_requests, pull]",
    ),
    "factors.batcher: a level stands twice": ("--set", "factors.batcher=[chunked, chunked]"),
    "factors.workload.retry: is what all combinations meet alike": ("--set", "factors={workload.retry: [1, 2]}"),
    "screen.runs: 59 is less than the 60 ": ("--set", "screen.runs=59"),
    "loads: [1.0, 1.0] names a load twice": ("--set", "loads=[1, 1]"),
    "scenario.policies.router: is a factor too": ("--set", "scenario.policies={router: pull}"),
    "modell: unknown key": ("--set", "scenario.modell=x"),
    "--loads: ": ("--loads", "1,2"),
    "--resume: needs a folder": ("--resume",),
    "block alike / two: the reference carries no load": ("--set", "scenario.slo.ttft_s=0.000001"),
    "block few / two: the reference carries every load": (
        "--set",
        "blocks.traffic={few: {workload: {poisson: {rate: 60, requests: 5}}}}",
        "--set",
        "screen.runs=30",
    ),
}


@pytest.mark.parametrize("expected", WRONG)
def test_mistakes_are_one_line(home: Path, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(home, *WRONG[expected]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1


def test_a_path_may_begin_with_a_variable(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    traffic = "blocks.traffic={recorded: {workload: {trace: $TRACES/trace.csv, limit: 60}}}"
    options = [word for each in (traffic, *SMALL) for word in ("--set", each)]
    monkeypatch.delenv("TRACES", raising=False)
    assert played(home, *options) == 2
    assert "the variable TRACES is not set" in capsys.readouterr().err
    monkeypatch.setenv("TRACES", str(home))
    assert played(home, *options) == 0


@pytest.mark.parametrize("name", ["tournament", "tournament_generated"])
def test_the_examples_are_read(name: str) -> None:
    """Whether or not the recorded traces are there."""
    tournament = read(Path(__file__).parents[3] / "examples" / f"{name}.yaml")
    assert len(tournament.names()) >= 4 and tournament.file.screen.runs >= len(tournament.names()) * len(
        alone(tournament.factors)
    )
