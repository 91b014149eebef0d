"""`poise validate` from end to end on a small folder, and on the real data where it is there."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path

import pytest

from poise.cli import DONE, FAILED, MISTAKEN, main
from poise.cost.tables import SHIPPED
from poise.experiment.workers import Workers
from poise.validation.answer import answer_rows
from poise.validation.condition import NotCoveredError, read_condition
from poise.validation.row import read_rows
from tests.report.reader import read
from tests.validation.made import row, table

LINES = (
    {},
    {"metric": "ttft_ms", "value": "20"},
    {"concurrency_or_rate": "concurrency=4", "value": "8"},
    {"gpu": "Abacus", "quality": "A"},
    {"engine": "llama.cpp", "quality": "C", "value": "1"},
    {"value": "wrong"},
)


@pytest.mark.parametrize("out", ["--out", "--page"])
def test_scores_answers_page_and_comparison(out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--page` is the earlier spelling of `--out`."""
    table(tmp_path, *LINES)
    wanted = {name: tmp_path / name for name in ("scores.json", "answers.csv", "page")}
    options = ["--json", "--answers", out]
    given = [part for pair in zip(options, map(str, wanted.values()), strict=True) for part in pair]
    assert main(["validate", str(tmp_path), "--jobs", "1", *given]) == DONE
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0].startswith("Predictions are off by ") and len(lines) <= 13
    assert "device Abacus is not in the catalogue (1)" in printed.out and "--tables prints all tables" in printed.out
    assert printed.err == "not read: serving_e2e.csv: line 7: value is 'wrong'; a number is needed\n"
    scores = json.loads(wanted["scores.json"].read_text())
    total = next(each for each in scores if each["source"] == "all" and each["metric"] == "tpot_ms")
    assert (total["n"], total["answered"]) == (3, 2)
    with wanted["answers.csv"].open() as file:
        answers = list(csv.DictReader(file))
    assert len(answers) == 5
    assert all(bool(each["predicted"]) == bool(each["low_80"]) != bool(each["why"]) for each in answers)
    page = (wanted["page"] / "validate.html").read_text()
    assert page.count('<svg class="chart dots"') == 2
    words = read(page).sections
    assert "Median error" in words["answer"][2] and "Time per output token" in words["all"]
    assert "http" not in page.replace("http://www.w3.org", "")
    assert len(re.findall(r'<g data-name="H100-SXM-80GB, made up"', page)) == 2, "a dot says whose it is"
    _compared(tmp_path, wanted["scores.json"], scores, capsys)


def _compared(folder: Path, saved: Path, scores: list[dict[str, object]], capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["validate", str(folder), "-q", "--jobs", "1", "--against", str(saved)]
    assert main(argv) == DONE
    capsys.readouterr()
    saved.write_text(json.dumps([{**each, "median_ape": 0.0} for each in scores]))
    assert main(argv) == FAILED
    assert "worse than in" in capsys.readouterr().err


def test_all_tables_are_printed_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(tmp_path, *LINES)
    assert main(["validate", str(tmp_path), "--jobs", "1", "--tables"]) == DONE
    printed = capsys.readouterr().out
    assert "By source and metric" in printed and "By device and metric" in printed
    assert "device Abacus is not in the catalogue" in printed


def test_json_may_go_to_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(tmp_path, {})
    assert main(["validate", str(tmp_path), "--json", "-", "--jobs", "1"]) == DONE
    assert json.loads(capsys.readouterr().out)[0]["answered"] == 1


@pytest.mark.parametrize("folder", ["", "none"])
def test_a_folder_without_measurements_is_the_user_s_mistake(
    tmp_path: Path, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", str(tmp_path / folder)]) == MISTAKEN
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "no measurements" in printed or "is not a folder" in printed


def test_no_folder_at_all_is_the_user_s_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("POISE_DATA", raising=False)
    assert main(["validate"]) == MISTAKEN
    assert "POISE_DATA" in capsys.readouterr().err


def test_answers_by_operator_tables_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Products at half of what ships answer later; a file that holds no tables is one line."""
    table(tmp_path, {})
    slow = json.loads(SHIPPED.read_bytes())
    for each in slow["tables"]:
        if each["kind"] == "gemm":
            each["shape"][1:3] = [part / 2 for part in each["shape"][1:3]]
    (tmp_path / "own.json").write_text(json.dumps(slow))
    found = []
    for words in ([], ["--operators", str(tmp_path / "own.json")]):
        answers = tmp_path / "answers.csv"
        assert main(["validate", str(tmp_path), "--jobs", "1", "-q", "--answers", str(answers), *words]) == DONE
        with answers.open() as file:
            found += [float(each["predicted"]) for each in csv.DictReader(file)]
    assert found[1] > 1.3 * found[0]
    (tmp_path / "none.json").write_text("{}")
    assert main(["validate", str(tmp_path), "--operators", str(tmp_path / "none.json")]) == MISTAKEN
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and "none.json: holds no operator tables" in printed


def test_processes_do_not_change_answers() -> None:
    rows = [row(load=f"concurrency={n}", metric=metric) for n in range(1, 10) for metric in ("ttft_ms", "tpot_ms")]
    assert answer_rows(rows, Workers(2)) == answer_rows(rows)


DATA = Path(os.environ.get("POISE_DATA", Path(__file__).parents[2] / "../shared/data")) / "fidelity/serving_e2e.csv"


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_file(), reason="the measurements are not there")
def test_the_real_data_is_covered() -> None:
    """Read all of it, answer some of it."""
    rows, faults = read_rows(DATA)
    assert faults == []
    covered = 0
    for each in rows:
        try:
            read_condition(each)
        except NotCoveredError:
            continue
        covered += 1
    assert covered / len(rows) > 0.96
    some = [each for each in rows[::307] if "concurrency=" not in each.load or int(each.load.split("=")[1]) <= 32]
    answers = answer_rows(some)
    assert sum(each.predicted is not None for each in answers) / len(answers) > 0.93
