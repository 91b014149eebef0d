"""Scenarios of agents' conversations in lanes, and what is said of odd traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.cli import main
from tests.workload.agent_files import conversation, marker, put_lines, request

SCENARIO = """\
model: llama-3.1-8b
cluster: {pools: [{device: H100, replicas: 2}]}
workload: {trace: agents.jsonl, lanes: 2, duration_s: 60}
policies: {router: prefix_cache}
run: {seeds: [1]}
"""

TURNS = [
    request(0.0, 640, api_time=1.0),
    request(5.0, 1280, api_time=1.0),
    marker(6.5, [request(0.5, 256, ids=[900, 901, 902, 903], api_time=2.0)]),
    request(400.0, 1920, api_time=1.0),
]
"""Three turns, with a sub-agent between the last two."""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put_lines(tmp_path, [conversation(TURNS, name=f"c{at}") for at in range(3)])
    Path("agents.yaml").write_text(SCENARIO)


def test_a_run_in_lanes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "agents.yaml", "--out", "out"]) == 0
    printed = capsys.readouterr().out
    assert "Load: 2 lanes for 60 s of 3 conversations, reachable prefix hits" in printed
    assert "Conversations done" in printed and "Interactivity p90" in printed
    result = json.loads(Path("out/result.json").read_text())
    assert result["agents"]["lanes"] == 2 and result["agents"]["finished"] > 3
    assert result["agents"]["subagents"] > 2 and result["programs"]["finished"] > 0
    assert result["prefix_hit_rate"] <= result["agents"]["theoretical_hit_rate"]
    assert "Interactivity p90" in Path("out/report.html").read_text()
    # So does the folder.
    Path("traces").mkdir()
    Path("agents.jsonl").rename("traces/agents.jsonl")
    assert main(["simulate", "agents.yaml", "--set", "workload.trace=traces", "--json", "folder.json"]) == 0
    assert json.loads(Path("folder.json").read_text())["agents"] == result["agents"]
    Path("traces/agents.jsonl").rename("agents.jsonl")
    # The resolved scenario is the same run.
    assert main(["simulate", "out/scenario.resolved.yaml", "--json", "again.json"]) == 0
    again = json.loads(Path("again.json").read_text())
    assert again["agents"] == result["agents"] and again["e2e_s"] == result["e2e_s"]


def test_loads_are_multiples_of_lanes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "agents.yaml", "--policies", "round_robin,prefix_cache", "--loads", "0.5,2"]) == 0
    printed = capsys.readouterr().out
    assert "Load 0.5: 1 lane for 60 s" in printed and "Load 2: 4 lanes for 60 s" in printed
    assert main(["compare", "agents.yaml", "--policies", "round_robin,prefix_cache", "--loads", "0.3"]) == 2
    assert "2 times load 0.3 is 0.6, which must be a whole number; give other loads" in capsys.readouterr().err


def test_without_lanes_conversations_begin_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("agents.yaml").write_text(SCENARIO.replace(", lanes: 2, duration_s: 60", ""))
    assert main(["simulate", "agents.yaml", "--json", "all.json"]) == 0
    result = json.loads(Path("all.json").read_text())
    assert result["requests"] == 12 and result["agents"]["lanes"] == 0 and result["agents"]["finished"] == 3
    Path("agents.yaml").write_text(SCENARIO.replace("lanes: 2, duration_s: 60", "open_loop: true"))
    capsys.readouterr()
    assert main(["simulate", "agents.yaml"]) == 0
    assert "Trace: requests arrive by their stamps, as fast as the recorded server answered." in capsys.readouterr().out


def test_long_conversations_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    put_lines(Path(), [conversation(TURNS), conversation([request(0.0, 200_000)])])
    assert main(["simulate", "agents.yaml"]) == 0
    assert "of 1 conversations (1 of more than 131,072 tokens left out)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            "trace: agents.jsonl, lanes: 2, scale: 2",
            "scale: conflicts with lanes, which set the load; change their number",
        ),
        ("trace: agents.jsonl, duration_s: 60", "duration_s: belongs to conversations in lanes, and there are none"),
        ("trace: agents.jsonl, lanes: 2, start: [1, 0]", "start: [1.0, 0.0] must be two shares from 0 to 1"),
        ("trace: agents.jsonl, lanes: 0", "lanes: 0 must be at least 1"),
        ("poisson: {rate: 1, requests: 9}, lanes: 2", "lanes: belongs to a trace, and the source is poisson"),
        (
            "trace: flat.csv, lanes: 2",
            "lanes hold conversations, and the trace does not say which request follows which",
        ),
    ],
)
def test_mistakes(changed: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("flat.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,9,9\n")
    Path("agents.yaml").write_text(SCENARIO.replace("trace: agents.jsonl, lanes: 2, duration_s: 60", changed))
    assert main(["simulate", "agents.yaml"]) == 2
    assert expected in capsys.readouterr().err


def test_an_end_of_the_run_conflicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "agents.yaml", "--set", "run.until_s=9"]) == 2
    assert "until_s: conflicts with workload.lanes, whose end is workload.duration_s" in capsys.readouterr().err


def test_commands_that_need_a_rate_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--trace", "agents.jsonl"]) == 2
    printed = capsys.readouterr().err
    assert "holds conversations of agents, whose load is a number of lanes" in printed and printed.count("\n") == 1
    assert main(["plan", "--trace", "agents.jsonl", *PLAN]) == 2
    printed = capsys.readouterr().err
    assert "its conversations do not say when they began, so it has no rate" in printed and printed.count("\n") == 1


PLAN = ["--model", "llama-3.1-8b", "--slo", "ttft_s=1", "--devices", "H100"]

ODD = """\
id,created,prompt_tokens,completion_tokens
r1,2026-03-02 12:03:11,400,20
r2,2026-03-02 12:03:19,300,20
r4,2026-03-02 12:04:01,300,20
r3,2026-03-02 12:03:40,300,20
r2,2026-03-02 13:10:00,300,20
"""
"""A trace that begins at noon, with a row out of order, one silence, and an id twice."""


def test_an_odd_trace_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.csv").write_text(ODD)
    Path("agents.yaml").write_text(SCENARIO.replace("agents.jsonl, lanes: 2, duration_s: 60", "odd.csv"))
    line = (
        "Trace: stamps count from the first request at 2026-03-02 12:03:11; "
        "1 gap above 10 min, the longest 1.1 h, kept; 1 row was out of order and is sorted; "
        "1 row has the id of an earlier one, kept as a request of its own."
    )
    named = ["--columns", "arrival_s=created"]
    assert main(["simulate", "agents.yaml", *named, "--out", "out"]) == 0
    assert line in capsys.readouterr().out.splitlines()
    assert f"<dt>Trace</dt><dd>{line.removeprefix('Trace: ')}</dd>" in Path("out/report.html").read_text()
    assert main(["compare", "agents.yaml", *named, "--policies", "round_robin,prefix_cache"]) == 0
    assert line in capsys.readouterr().out.splitlines()
    assert main(["simulate", "agents.yaml", *named, "--json", "-"]) == 0
    assert "Trace:" not in capsys.readouterr().out
