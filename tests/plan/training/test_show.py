"""`poise train show`, as typed."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from poise.cli import main
from poise.pipeline import make, names
from poise.pipeline.lower import program_of
from poise.program.text import read_program, write_program

SIZE = ("--ranks", "4", "--microbatches", "8")


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["train", *words, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", names())
def test_figures_are_those_of_the_schedule(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    costs = ["--f", "1,1,1,2", "--w", "0.5", "--s", "0.1", "--t", "0.1"]
    costs += [] if name.startswith("vocab") else ["--comm", "0.25"]
    one, two = (shown(capsys, command, name, *SIZE, *costs) for command in ("schedule", "show"))
    assert two["makespan"] == one["makespan"] and two["ranks"] == 4
    held = {each["rank"]: each["proven"] for each in two["memory"] if each["tier"] == "device"}
    assert [held[rank] for rank in range(4)] == pytest.approx(one["peak_memory"])
    assert all(each["peak"] <= each["proven"] + 1e-9 for each in two["memory"])
    busy = [each["busy"] for each in two["lanes"] if each["lane"] == "compute"]
    assert sorted(busy) == pytest.approx(sorted(one["busy"]))
    path = two["critical_path"]
    assert path[0]["start"] == 0 and path[-1]["end"] == two["makespan"]
    assert all(each["end"] == after["start"] for each, after in pairwise(path))
    assert (two["accepts"] == ["stale weights"]) == (name == "pipelined_backprop")


def test_a_written_program_shows_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "step.txt"
    words = ("--comm", "0.25", "--f", "1,2,1,1")
    one = shown(capsys, "show", "dualpipe", *SIZE, *words, "--text", str(file))
    assert read_program(file.read_text()) == program_of(make("dualpipe", 4, 8))
    assert shown(capsys, "show", str(file), *words) == one
    assert main(["train", "check", str(file)]) == 0
    assert f"{file}: proven. 4 ranks, 20 lanes, " in capsys.readouterr().out
    assert shown(capsys, "check", str(file))["memory"] == [
        {"rank": each["rank"], "tier": each["tier"], "proven": each["proven"]} for each in one["memory"]
    ]
    assert main(["train", "check", str(file), "--memory-limit", "4.5"]) == 2
    assert f"{file}: rank 0 holds 5 on tier device during" in capsys.readouterr().err


def test_files_of_schedules_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = shown(capsys, "show", "zb_v", *SIZE)
    for option, name in (("--out", "x.json"), ("--out", "x.txt"), ("--csv", "x.csv")):
        file = tmp_path / name
        assert main(["train", "schedule", "zb_v", *SIZE, option, str(file)]) == 0
        capsys.readouterr()
        found = shown(capsys, "show", str(file))
        assert {**found, "name": ""} == {**one, "name": ""}


def test_the_summary_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "show", "one_f_one_b", "--ranks", "2", "--microbatches", "2", "--comm", "0.5"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("one_f_one_b: proven. 2 ranks, 6 lanes, 20 tasks, 4 messages, 0 collectives: messages and ")
    assert "makespan 10, in units of the largest F" in text
    assert "without a time: scale, update; --time scale=0.5 gives one" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["0", "compute", "6", "6", "4", "0", "10"] in rows and ["0", "device", "2", "2"] in rows
    assert ["1", "1.5", "1", "from", "0", "message", "x0.0"] in rows
    assert ["1.5", "7.5", "1", "compute", "4", "1F0", "to", "1B1"] in rows


def test_a_kind_has_the_time_that_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    plain = shown(capsys, "show", "gpipe", *SIZE)
    assert plain["untimed"] == ["scale", "update"]
    slow = shown(capsys, "show", "gpipe", *SIZE, "--time", "update=1/2", "--time", "scale=0.25")
    assert slow["untimed"] == [] and slow["makespan"] == plain["makespan"] + 0.75


def test_files_for_other_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, trace, table = tmp_path / "a.html", tmp_path / "a.json", tmp_path / "a.csv"
    files = ["--page", str(page), "--perfetto", str(trace), "--csv", str(table)]
    assert main(["train", "show", "po_f", *SIZE, "--comm", "0.25", *files]) == 0
    text = page.read_text()
    for words in (
        ">0 compute<",
        ">0 d2h<",
        ">0 h2d<",
        ">1 from 0<",
        "message on its way",
        "host of rank",
        "Critical path",
    ):
        assert words in text
    assert "http" not in text and "po_f: proven." in text
    assert {e["args"]["name"] for e in json.loads(trace.read_text())["traceEvents"] if e["name"] == "thread_name"} >= {
        "compute", "d2h", "h2d", "to 1", "from 0",
    }  # fmt: skip
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert {row["kind"] for row in rows} >= {"F", "I", "W", "copy", "send", "recv", "free"}


def test_a_tampered_file_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "step.txt", tmp_path / "page.html"
    text = write_program(program_of(make("one_f_one_b", 4, 8)))
    cases = {
        text.replace("  send(0,3) x0.3 | group 0,1\n", ""): "ranks 0 and 1: message 3 is sent by send x0.4 ",
        text.replace("1/8(w1,1,0..7)", "1/8(w1,1,0..6)"): "would update w1 with a wrong gradient: the gradient of w1",
        text.replace("scale(1,8) dw2#8", "scale(1,4) dw2#8"): "has the factor 1/4 instead of 1/8",
        text.replace("B(1,2) c1.2#0", "B(1,2) c1.3#0"): "it needs ctx 1 2 0",
        text.replace("scale(1,8) dw3#8", "scale(x) dw3#8"): "scale dw3#9 (rank 3, lane compute, slot 16) does not fit",
        text.replace("path 0..7: 0 1 2 3", "path 0..7 0 1 2 3"): "line 3: '0..7 0 1 2 3' cannot be read",
        text.replace("F(0,5)", "G(0,5)"): "G has no rule; give it one",
    }  # fmt: skip
    for tampered, expected in cases.items():
        assert tampered != text
        file.write_text(tampered)
        assert main(["train", "show", str(file), "--page", str(page)]) == 2
        out, error = capsys.readouterr()
        assert expected in error and str(file) in error and error.count("\n") == 1 and not out
        assert not page.exists()
        assert main(["train", "check", str(file)]) == 2
        assert expected in capsys.readouterr().err


RING = """program 1
# two ranks that sum something
given a@0 = (x,0,0)
given a@1 = (x,1,0)
size 4: a@0 a@1
size 1/4 disk: b@0

rank 0, lane group 0,1
  all_reduce a -> b | group 0,1 work 1e9

rank 1, lane group 0,1
  all_reduce a -> b | group 0,1 work 1e9
"""


def test_a_program_without_stages_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "ring.txt", tmp_path / "ring.html"
    file.write_text(RING)
    still = shown(capsys, "show", str(file), "--page", str(page))
    assert still["makespan"] == 0 and still["untimed"] == ["all_reduce"] and still["critical_path"] == []
    found = shown(capsys, "show", str(file), "--time", "all_reduce=2", "--page", str(page))
    assert found["makespan"] == 2 and found["collectives"] == 1 and found["kinds"] == {"all_reduce": 2}
    assert [each["peak"] for each in found["memory"]] == [4, 0.25, 4]
    assert ">1 group 0,1<" in page.read_text()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["zb_h1"], "--ranks: missing for zb_h1; give the number of pipeline ranks, as in --ranks 4"),
        (["zbh1", *SIZE], "did you mean zb_h1"),
        (["none.txt"], "none.txt: cannot be read (No such file"),
        (["none.csv"], "none.csv: cannot be read (No such file"),
        (["empty.txt"], "empty.txt: has no tasks; write a line such as 'rank 0, lane compute' and tasks below it"),
        (["here.txt", "--ranks", "4"], "--ranks: here.txt is a file and has its own; leave the option out"),
        (["here.txt", "--chunks", "2"], "--chunks: here.txt is a file and has its own"),
        (["here.txt", "--f", "1,2,3"], "f: 3 values for 2 stages; give one, 2"),
        (
            ["here.txt", "--memory-limit", "1"],
            "rank 0 holds 2 on tier device during 0F1 (rank 0, lane compute, slot 1)",
        ),
        (["here.txt", "--memory-limit", "1,2"], "--memory-limit '1,2': give one number, for the device of every rank"),
        (
            ["here.txt", "--time", "update"],
            "--time 'update': give a kind and a time of 0 or more, as in all_reduce=0.5",
        ),
        (["here.txt", "--time", "update=-1"], "--time 'update=-1': give a kind and a time of 0 or more"),
        (["here.txt", "--text", "no/way/here.txt/x"], "--text no/way/here.txt/x"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.txt").write_text(write_program(program_of(make("one_f_one_b", 2, 4))))
    (tmp_path / "empty.txt").write_text("program 1\n")
    (tmp_path / "no").write_text("a file")
    assert main(["train", "show", *words]) == 2
    out, error = capsys.readouterr()
    assert expected in error and error.count("\n") == 1 and not out
