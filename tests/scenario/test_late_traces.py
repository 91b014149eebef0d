"""A part cut out of a day says the same as the same requests stamped from 0, in all that is printed and written."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from poise.cli import main

SCENARIO = """\
model: poise/tiny
cluster: {pools: [{device: H100, replicas: 2}], faults: [{kind: slow, replica: 0, at_s: 1, for_s: 1, factor: 3}]}
workload: {trace: trace.csv, timeout_s: 5}
policies: {router: [round_robin, prefix_cache]}
slo: {ttft_s: 0.05, tpot_s: 0.01}
run: {warmup_s: 0.5, until_s: 3.5}
"""
HEAD = "arrival_s,prompt_tokens,output_tokens,session,hash_ids,request_id,after,delay_s\n"

LATER = (2400, 86_399.125, 1_700_000_000)
"""By how many seconds all stamps are moved: within a day, near its end, since 1970."""


def trace(later_s: float) -> str:
    """Four seconds of requests; every fifth follows the one before it, and its own stamp is ignored."""
    rows = []
    for at in range(200):
        micros = round(later_s * 10**6) + at * 20_123
        stamp = f"{micros // 10**6}.{micros % 10**6:06}"
        joined = f"r{at - 1},0.25" if at % 5 == 4 else ","
        rows.append(f"{stamp},{600 + at * 37 % 900},{5 + at % 40},s{at % 9},{at % 9},r{at},{joined}")
    return HEAD + "\n".join(rows) + "\n"


def printed(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], later_s: float) -> str:
    """All that `simulate` and `compare` print and write about one trace, but times of the machine and the stamps."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("trace.csv").write_text(trace(later_s))
    Path("scenario.yaml").write_text(SCENARIO)
    simulated = ["simulate", "scenario.yaml", "--router", "prefix_cache"]
    compared = ["compare", "scenario.yaml", "--jobs", "1"]
    for more in (["--out", "out"], ["--json", "-"]):
        assert main([*simulated, *more]) == 0
        assert main([*compared, "--loads", "0.5,1,2.5", *([more[0], "both"] if more[0] == "--out" else more)]) == 0
    text = capsys.readouterr().out
    for page in ("out/report.html", "both/report.html", "out/result.json", "both/result.json", "out/scenario.yaml"):
        text += Path(page).read_text() if Path(page).exists() else ""
    text = re.sub(r'"(wall_s|cpu_s)": [0-9.e-]+', "", text)
    text = re.sub(r'"shifted_s": [0-9.e+-]+,\s*|<dt>shifted_s</dt><dd>[^<]*</dd>', "", text)
    text = re.sub(r"Trace: stamps count from the first request at .*\n|<dt>Trace</dt><dd>[^<]*</dd>", "", text)
    return re.sub(r"[0-9a-f]{64}", "", text)


def test_a_trace_that_begins_late_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at_once = printed(tmp_path / "here", monkeypatch, capsys, 0.0)
    assert '"goodput_rps"' in at_once
    for later in LATER:
        assert printed(tmp_path / "here", monkeypatch, capsys, later).splitlines() == at_once.splitlines(), later


def test_the_result_says_by_how_much_stamps_were_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace.csv").write_text(trace(2400))
    Path("scenario.yaml").write_text(SCENARIO)
    assert main(["simulate", "scenario.yaml", "--router", "prefix_cache", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["provenance"]["workload"]["shifted_s"] == -2400
