"""`poise calibrate ENGINE.log` writes a cost that is read back, and refuses what is no log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.cli import main
from poise.cost.fitted import load_fitted
from tests.recordings.engine_logs.made import sglang
from tests.recordings.engine_logs.test_fit import TRUE


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "engine.log"
    path.write_text(sglang(TRUE))
    return path


def test_a_log_becomes_a_cost(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, found = log.with_name("cost.json"), log.with_name("told.json")
    whose = ["--model", "meta-llama/Llama-3.1-8B", "--device", "H100", "--tensor", "2"]
    assert main(["calibrate", str(log), *whose, "--out", str(out), "--json", str(found)]) == 0
    printed = capsys.readouterr().out
    assert "Step cost, fitted to 4" in printed and "Errors of steps that the fit did not see" in printed
    assert "Left out: windows whose beginning is not in the log: 1; " in printed and "taken as 40" in printed
    cost = load_fitted(out)
    assert cost.step_s == pytest.approx(TRUE.step_s, rel=0.02)
    assert cost.about["engine"] == "sglang" and cost.about["tensor"] == 2 and cost.about["device"] == "H100"
    assert json.loads(found.read_text())["coefficients"] == cost.coefficients
    assert main(["calibrate", str(log), "--prior", str(out), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["left_out"]["first"] == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--model", "no/such"], "no/such"),
        (["--device", "nosuch"], "nosuch"),
        (["--tensor", "0"], "--tensor 0: must be at least 1"),
    ],
)
def test_whose_log_it_is_must_be_known(
    log: Path, capsys: pytest.CaptureFixture[str], options: list[str], expected: str
) -> None:
    assert main(["calibrate", str(log), *options]) == 2
    assert expected in capsys.readouterr().err


def test_what_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("Nothing to see.\n")
    assert main(["calibrate", str(notes)]) == 2
    assert "notes.txt: of 1 lines, none that vLLM or SGLang write" in " ".join(capsys.readouterr().err.split())
    recording = tmp_path / "day.jsonl"
    recording.write_text("{}\n")
    assert main(["calibrate", str(recording), "--model", "x"]) == 2
    assert "this is a recording" in " ".join(capsys.readouterr().err.split())
