"""`poise train schedule`, `schedules` and `check`, as typed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from poise.cli import main


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["train", *words, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


SIZE = ("--ranks", "8", "--microbatches", "32")


def test_figures_are_in_units_of_the_largest_forward(capsys: pytest.CaptureFixture[str]) -> None:
    one = planned(capsys, "schedule", "zb_v", *SIZE)
    assert (one["makespan"], one["bubble_global"], one["bubble_span"]) == (99.5, 3.5, 0)
    assert one["bubble_global_fraction"] == 3.5 / 99.5 and one["bubble_span_fraction"] == 0
    assert one["peak_memory"] == [8] * 8 and one["made_s"] > 0 and one["checked_s"] > 0
    scaled = planned(capsys, "schedule", "zb_v", *SIZE, "--f", "2.5", "--b", "2.5", "--w", "2.5")
    assert {**scaled, "made_s": 0, "checked_s": 0} == {**one, "made_s": 0, "checked_s": 0}
    uneven = planned(capsys, "schedule", "gpipe", "--ranks", "2", "--microbatches", "3", "--f", "1,4", "--comm", "8")
    assert uneven["makespan"] == (1 + 8 + 3 * 4 + 3 * 2 + 8 + 2) / 4


def test_chunks_and_a_memory_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(capsys, "schedule", "interleaved", *SIZE, "--chunks", "4")["makespan"] == 101.25
    assert planned(capsys, "schedule", "v_half", *SIZE, "--memory-limit", "5")["bubble_span"] == 8.5
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
    assert planned(capsys, "check", str(file))["communications"] is True
    lines = file.read_text().replace("3F7,", "", 1)
    file.write_text(lines)
    assert main(["train", "check", str(file)]) == 2
    error = capsys.readouterr().err
    assert str(file) in error and "3F7" in error and "Traceback" not in error


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["pipedream", "--set", "replicas=4,2,2", "--set", "vertical=no"], "x.json"),
        (["vocab_1", "--s", "0.1", "--t", "0.2", "--barrier", "0.5"], "x.txt"),
        (["po_f", "--offload", "1,1,1,1,1,1,1,2", "--reload", "1"], "x.json"),
        (["skippipe", "--set", "skip=1/2", "--set", "alive=6"], "x.txt"),
    ],
)
def test_what_pytorch_cannot_run_is_saved_and_proven(
    words: list[str], file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / file
    assert main(["train", "schedule", *words, *SIZE, "--out", str(path)]) == 0
    assert main(["train", "check", str(path)]) == 0
    assert "proven" in capsys.readouterr().out
    assert main(["train", "schedule", *words, *SIZE, "--csv", str(tmp_path / "x.csv")]) == 2
    assert "keep the text" in capsys.readouterr().err and not (tmp_path / "x.csv").exists()
    path.write_text(path.read_text().replace("0F3 ", "", 1))
    assert main(["train", "check", str(path)]) == 2
    error = capsys.readouterr().err
    assert str(path) in error and "Traceback" not in error


def test_copies_take_half_of_the_work_unless_given(capsys: pytest.CaptureFixture[str]) -> None:
    one = planned(capsys, "schedule", "po_f", *SIZE, "--f", "2", "--b", "2,2,2,2,2,2,2,4", "--w", "2")
    words = ("--f", "2", "--b", "2,2,2,2,2,2,2,4", "--w", "2", "--offload", "3,3,3,3,3,3,3,4")
    other = planned(capsys, "schedule", "po_f", *SIZE, *words)
    assert {**one, "made_s": 0, "checked_s": 0} == {**other, "made_s": 0, "checked_s": 0}
    assert one["training"] == "exact" and one["weights"] == 1


def test_all_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(capsys, "schedules", "--ranks", "4", "--microbatches", "9", "--chunks", "4")
    names = [each["name"] for each in found["schedules"]]
    assert {"gpipe", "zb_v", "interleaved"} <= set(names)
    kinds = {each["name"]: (each["training"], each["weights"]) for each in found["schedules"]}
    assert kinds["pipedream"] == ("stale weights", 4) and kinds["pipelined_backprop"] == ("stale weights", 1)
    assert kinds["skippipe"] == ("skips stages", 1) and kinds["zb_h1"] == ("exact", 1)
    assert "both must be even" in found["refused"]["dualpipe"]
    makespans = [each["makespan"] for each in found["schedules"]]
    assert makespans == sorted(makespans)
    assert next(each for each in found["schedules"] if each["name"] == "interleaved")["chunks"] == 4


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["schedule", "zbv", *SIZE], "did you mean zb_v"),
        (["schedule", "gpipe", *SIZE, "--f", "1,2"], "f: 2 values for 8 stages; give one, 8"),
        (["schedule", "gpipe", *SIZE, "--w", "x"], "w: ['x'] is no number"),
        (["schedule", "gpipe", *SIZE, "--memory-limit", "0"], "--memory-limit '0'"),
        (["schedule", "zb_v", *SIZE, "--chunks", "4"], "it has 2 on each rank"),
        (["schedule", "dualpipe", *SIZE, "--csv", "x.csv"], "stage 0 has copies on ranks 0 and 7"),
        (["schedule", "pipedream", *SIZE, "--set", "replicas=x"], "'replicas=x' is no value of replicas; give whole"),
        (
            ["schedule", "zeropp", *SIZE, "--set", "units=8"],
            "zeropp: unknown parameter 'units'; did you mean unit?",
        ),
        (["schedule", "po_h", *SIZE, "--set", "costs=1"], "costs cannot be given as a text"),
        (["schedule", "po_h", *SIZE, "--out", "x.csv"], "end the name in .json or .txt"),
        (["check", "missing.json"], "missing.json: cannot be read"),
        (["schedules", *SIZE, "--comm", "1,2"], "comm: 2 values for 8"),
        (["check", "missing.csv"], "missing.csv: cannot be read"),
    ],
)
def test_mistakes_say_what_would_do(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words]) == 2
    assert expected in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_page_shows_a_schedule_beside_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.html"
    words = ["train", "schedule", "zb_v", "--ranks", "4", "--microbatches", "8", "--page", str(file)]
    assert main([*words, "--beside", "one_f_one_b, interleaved"]) == 0
    page = file.read_text()
    assert all(f"<figcaption>{name}</figcaption>" in page for name in ("zb_v", "one_f_one_b", "interleaved"))
    assert page.count('class="lanes" viewBox="0 0 1320') == 3 and ">rank 3<" in page and "http" not in page
    assert main([*words, "--beside", "one_f_oneb"]) == 2
    assert "did you mean one_f_one_b" in capsys.readouterr().err
    assert main([*words[:4], "32", "--microbatches", "1024", "--page", str(file)]) == 2
    assert "too many to draw" in capsys.readouterr().err
    assert file.read_text() == page


def test_a_schedule_of_the_user_s_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    Path("own_one.py").write_text(
        "from poise.pipeline import make\n"
        "def same(stages, microbatches): return make('gpipe', stages, microbatches)\n"
        "def none(stages, microbatches): return 7\n"
        "def fails(stages, microbatches): return 1 // 0\n"
    )
    size = ("--ranks", "4", "--microbatches", "8")
    assert planned(capsys, "schedule", "own_one:same", *size)["makespan"] == 33
    for name, expected in {
        "own_one:none": "returns int; a schedule's function returns a Schedule",
        "own_one:fails": "fails (ZeroDivisionError",
        "own_one:other": "module own_one has no function 'other'",
        "own_two:same": "cannot import 'own_two' (ModuleNotFoundError",
    }.items():
        assert main(["train", "schedule", name, *size]) == 2
        assert expected in capsys.readouterr().err


def test_our_own_scheduler_tells_how_good_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("schedule", "poise", "--ranks", "4", "--microbatches", "8", "--chunks", "2", "--memory-limit", "3,3,3,3")
    found = planned(capsys, *words)
    assert found["makespan"] == 26.5 and found["peak_memory"] == [3] * 4
    assert found["certificate"] == {
        "by": "makespan", "value": 26.5, "bound": 26.5, "gap": 0, "optimal": True, "proof": "bound",
    }  # fmt: skip
    assert main(["train", *words]) == 0
    assert "proven: no schedule of its placement has a smaller makespan (by bound)" in capsys.readouterr().out
    assert planned(capsys, "schedule", "v_auto", *SIZE, "--by", "span")["bubble_span"] == 0
    assert main(["train", "schedule", "zb_v", *SIZE, "--by", "span"]) == 2
    assert "zb_v: unknown parameter 'by'" in capsys.readouterr().err
    assert main(["train", "schedule", "poise", *SIZE, "--memory-limit", "3,3"]) == 2
    assert "2 values for 8 ranks; give one, or 8" in capsys.readouterr().err


@pytest.mark.parametrize("spelling", [("--stages", "2"), ("--stages=2",), ("--ranks=2",)])
def test_earlier_spellings_are_accepted(spelling: tuple[str, ...], tmp_path: Path) -> None:
    words = ["train", "schedule", "gpipe", "--microbatches", "3"]
    assert main([*words, "--ranks", "2", "--out", str(tmp_path / "new.txt")]) == 0
    assert main([*words, *spelling, "--save", str(tmp_path / "old.txt")]) == 0
    assert (tmp_path / "old.txt").read_text() == (tmp_path / "new.txt").read_text()


def test_earlier_spellings_are_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "schedule", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--ranks" in shown and "--stages" not in shown and "--save" not in shown


def test_two_microbatches_a_rank_are_the_default_and_endless_schedules_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert planned(capsys, "schedule", "gpipe", "--ranks", "3")["microbatches"] == 6
    assert main(["train", "schedule", "gpipe", "--ranks", "1000", "--microbatches", "1001"]) == 2
    assert "--ranks 1000 --microbatches 1001: their product must be at most 1,000,000" in capsys.readouterr().err
