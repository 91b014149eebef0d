"""`poise train schedule`, `schedules` and `check`, as typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from poise.cli import main


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["train", *words, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


SIZE = ("--stages", "8", "--microbatches", "32")


def test_figures_are_in_units_of_the_largest_forward(capsys: pytest.CaptureFixture[str]) -> None:
    one = told(capsys, "schedule", "zb_v", *SIZE)
    assert (one["makespan"], one["bubble_global"], one["bubble_span"]) == (99.5, 3.5, 0)
    assert one["bubble_global_fraction"] == 3.5 / 99.5 and one["bubble_span_fraction"] == 0
    assert one["peak_memory"] == [8] * 8 and one["made_s"] > 0 and one["checked_s"] > 0
    scaled = told(capsys, "schedule", "zb_v", *SIZE, "--f", "2.5", "--b", "2.5", "--w", "2.5")
    assert {**scaled, "made_s": 0, "checked_s": 0} == {**one, "made_s": 0, "checked_s": 0}
    uneven = told(capsys, "schedule", "gpipe", "--stages", "2", "--microbatches", "3", "--f", "1,4", "--comm", "8")
    assert uneven["makespan"] == (1 + 8 + 3 * 4 + 3 * 2 + 8 + 2) / 4


def test_chunks_and_a_memory_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "schedule", "interleaved", *SIZE, "--chunks", "4")["makespan"] == 101.25
    assert told(capsys, "schedule", "v_half", *SIZE, "--memory-limit", "5")["bubble_span"] == 8.5
    assert main(["train", "schedule", "v_half", *SIZE, "--memory-limit", "4"]) == 2
    assert "takes rank 0 to 4.5 full-stage activations of 4; the schedule needs 5" in capsys.readouterr().err


def test_written_files_are_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--communications"]):
        file, trace = tmp_path / "x.csv", tmp_path / "x.json"
        words = ["schedule", "v_min", *SIZE, "--csv", str(file), "--timeline", str(trace), *more]
        assert main(["train", *words]) == 0
        assert json.loads(trace.read_text())["traceEvents"]
        assert main(["train", "check", str(file)]) == 0
        assert "proven. 16 stages on 8 ranks, 32 microbatches" in capsys.readouterr().out
    assert told(capsys, "check", str(file))["communications"] is True
    lines = file.read_text().replace("3F7,", "", 1)
    file.write_text(lines)
    assert main(["train", "check", str(file)]) == 2
    error = capsys.readouterr().err
    assert str(file) in error and "3F7" in error and "Traceback" not in error


def test_all_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "schedules", "--stages", "4", "--microbatches", "9", "--chunks", "4")
    names = [each["name"] for each in found["schedules"]]
    assert {"gpipe", "zb_v", "interleaved"} <= set(names)
    assert "both must be even" in found["refused"]["dualpipe"]
    makespans = [each["makespan"] for each in found["schedules"]]
    assert makespans == sorted(makespans)
    assert next(each for each in found["schedules"] if each["name"] == "interleaved")["chunks"] == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["schedule", "zbv", *SIZE], "did you mean zb_v"),
        (["schedule", "gpipe", *SIZE, "--f", "1,2"], "f: 2 values for 8 stages; give one, 8"),
        (["schedule", "gpipe", *SIZE, "--w", "x"], "w: ['x'] is no number"),
        (["schedule", "gpipe", *SIZE, "--memory-limit", "0"], "--memory-limit '0'"),
        (["schedule", "zb_v", *SIZE, "--chunks", "4"], "it has 2 on each rank"),
        (["schedule", "dualpipe", *SIZE, "--csv", "x.csv"], "stage 0 has copies on ranks 0 and 7"),
        (["schedules", *SIZE, "--comm", "1,2"], "comm: 2 values for 8"),
        (["check", "missing.csv"], "missing.csv: cannot be read"),
    ],
)
def test_mistakes_say_what_would_do(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
