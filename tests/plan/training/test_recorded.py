"""A recorded step as costs, beside its simulation: one that ran as simulated is off by nothing."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from poise.cli import main
from poise.pipeline import Costs, make, time
from poise.pipeline.communicate import communicate
from poise.pipeline.op import MESSAGES
from poise.runtime.job import schedule_of
from poise.runtime.recording import Event, Recording

COSTS = Costs.of(f=[3, 2, 2, 4], b=[2, 2, 3, 4], w=[1, 2, 2, 1])


def recorded(path: Path) -> Fraction:
    """A file of a step that ran just as the simulation says, a unit a millisecond; its makespan."""
    plain = make("zb_v", 2, 4)
    timing = time(plain, COSTS)
    step = Fraction(10**6, timing.scale)
    flat = [op for row in plain.ranks for op in row]
    ran = {op: (int(a * step), int(b * step)) for op, a, b in zip(flat, timing.starts, timing.ends, strict=True)}
    whole = communicate(plain)
    rows = []
    for row in whole.ranks:
        events, now = [], 0
        for op in row:
            start, now = ran.get(op, (now, now))
            events.append(Event(str(op), start, start, now, 0, 0))
        rows.append(events)
    assert {op.kind for row in whole.ranks for op in row} > MESSAGES
    Recording(whole, rows).save(path)
    return timing.makespan


def test_costs_of_a_step_repeat_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step, out = tmp_path / "step.json", tmp_path / "costs.json"
    makespan = recorded(step)
    assert main(["calibrate", str(step), "--out", str(out)]) == 0
    assert f"{float(makespan):.4g} ms simulated (+0.0 %)" in capsys.readouterr().out
    kept = json.loads(out.read_text())
    assert (kept["f"], kept["b"], kept["w"]) == ([3, 2, 2, 4], [2, 2, 3, 4], [1, 2, 2, 1])
    words = ["train", "schedule", "one_f_one_b", "--ranks", "2", "--microbatches", "4", "--costs", str(out)]
    assert main([*words, "--json", "-"]) == 0
    printed = json.loads(capsys.readouterr().out)
    expected = time(make("one_f_one_b", 2, 4), Costs.of(f=[5, 6], b=[4, 7], w=[3, 3]))
    assert printed["makespan"] == pytest.approx(float(expected.makespan / expected.largest_f))
    assert main([*words, "--f", "2"]) == 2
    assert "holds all times" in capsys.readouterr().err


def test_run_and_simulation_in_one_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step, page = tmp_path / "step.json", tmp_path / "page.html"
    makespan = recorded(step)
    assert main(["train", "compare", str(step), "--beside", "gpipe", "--page", str(page), "--json", "-"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["measured_ms"] == printed["simulated_ms"] == float(makespan) and printed["error"] == 0
    assert printed["others"]["gpipe"] > printed["measured_ms"]
    drawn = page.read_text()
    assert all(f"<figcaption>{name}</figcaption>" in drawn for name in ("zb_v, as run", "zb_v, simulated", "gpipe"))


def test_a_schedule_of_the_user_s_own_stands_beside_and_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    Path("own_beside.py").write_text("from poise.pipeline import make\ndef same(p, m): return make('gpipe', p, m)\n")
    recorded(tmp_path / "step.json")
    assert main(["train", "compare", "step.json", "--beside", "own_beside:same,gpipe", "--json", "-"]) == 0
    assert set(json.loads(capsys.readouterr().out)["others"]) == {"gpipe"}
    assert schedule_of("own_beside:same", 2, 4, None).name == "gpipe"


def test_what_is_no_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("{}")
    assert main(["train", "compare", str(tmp_path / "x.json")]) == 2
    assert "no recording of version 1" in capsys.readouterr().err
    recorded(tmp_path / "step.json")
    assert main(["calibrate", str(tmp_path / "step.json"), "--model", "x"]) == 2
    assert "have no part in a training step" in capsys.readouterr().err
