"""`poise story`: what it prints of a saved run or a scenario, and what it says when it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from poise.cli import main
from tests.scenario.test_diff import SHARED


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.yaml").write_text(SHARED.replace("requests: 1500", "requests: 300"))
    return tmp_path


def story(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert main(["story", *argv]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert main(["story", *argv]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    return printed.err


def test_a_story_of_a_saved_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "scenario.yaml", "--out", "out", "-q"]) == 0  # without --blame: nothing more is needed
    title, *lines, closing = story(capsys, "out", "211").splitlines()
    assert title == "Request 211 of out"
    row = pl.read_parquet("out/requests.parquet").row(211, named=True)
    assert lines[0].split("  ")[0].strip() == f"{row['arrival_s']:.6f} s"
    assert f"arrives with a prompt of {row['prompt_tokens']:,} tokens" in lines[0]
    assert f"PrefixCache chooses replica {row['replica']}, of 3 that can take it; it sees requests " in lines[1]
    assert f"; {row['cached_tokens']:,} of {row['prompt_tokens']:,} tokens are in the prefix cache" in lines[3]
    assert f"computes tokens {row['cached_tokens'] + 1:,} to {row['prompt_tokens']:,} in" in lines[4]
    assert "finished with 40 tokens" in lines[-1]
    assert closing.startswith("Its ") and "(mean of 300 finished requests: " in closing
    assert "; furthest from the mean: " in closing


def test_its_parts_are_those_of_the_blame(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "scenario.yaml", "--out", "out", "-q", "--blame"]) == 0
    result = json.loads(story(capsys, "out", "5", "--json", "-"))
    row = pl.read_parquet("out/requests.parquet").row(5, named=True)
    assert result["request"] == row
    assert sum(result["parts"].values()) == pytest.approx(row["e2e_s"], abs=1e-12)
    blame = json.loads(Path("out/result.json").read_text())["blame"]
    for part, mean in result["typical"].items():
        assert mean == pytest.approx(blame["ttft"][part] + blame["rest"][part], abs=1e-15)
    story(capsys, "out", "5", "--json", "story.json")
    assert json.loads(Path("story.json").read_text()) == result
    assert json.loads(story(capsys, "scenario.yaml", "5", "--json", "-"))["lines"] == result["lines"]


def test_of_several_routers_one_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    routers = "policies.router=[round_robin, prefix_cache]"
    error = refused(capsys, "scenario.yaml", "5", "--set", routers)
    assert "scenario.yaml: lists several policies; name one with --router: round_robin, prefix_cache" in error
    assert "has no router llumnix; name one" in refused(capsys, "scenario.yaml", "5", "--router", "llumnix")
    for router, name in (("round_robin", "RoundRobin"), ("prefix_cache", "PrefixCache")):
        assert f"{name} chooses" in story(capsys, "scenario.yaml", "5", "--set", routers, "--router", router)


def test_requests_without_a_story(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere: no such folder; give a folder that" in refused(capsys, "nowhere", "1")
    Path("empty").mkdir()
    assert "empty: has no scenario.resolved.yaml" in refused(capsys, "empty", "1")
    assert "has no request 300; its requests are 0 to 299: give one of them" in refused(capsys, "scenario.yaml", "300")
    assert "should be a valid integer" in refused(capsys, "scenario.yaml", "last")
    assert "request 299 never arrived" in refused(capsys, "scenario.yaml", "299", "--set", "run.until_s=0.3")
    assert main(["simulate", "scenario.yaml", "--out", "out", "-q"]) == 0
    assert "give the scenario, as in out/scenario.resolved.yaml" in refused(capsys, "out", "5", "--set", "slo.ttft_s=1")


def test_a_run_that_does_not_repeat_exactly_has_no_story(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "scenario.yaml", "--out", "out", "-q"]) == 0
    resolved = Path("out/scenario.resolved.yaml")
    resolved.write_text(resolved.read_text().replace("output_tokens: 40", "output_tokens: 41"))
    error = refused(capsys, "out", "7")
    assert "out/requests.parquet: has " in error and "of request 7, and the scenario beside it now gives" in error
