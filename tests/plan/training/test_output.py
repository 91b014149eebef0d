"""`poise train plan --out`: a page, JSON and settings, all of one answer, or nothing at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.cli import main
from poise.pipeline import check
from poise.pipeline.text import read_file
from tests.report.reader import read

WORDS = ("train", "plan", "llama-2-13b", "--devices", "H100", "--gpus", "8", "--batch", "32", "--seq", "2048")


def test_all_files_are_of_one_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "plan"
    assert main([*WORDS, "--pipeline", "4", "--schedules", "one_f_one_b", "--zero", "1", "--out", str(folder)]) == 0
    printed = capsys.readouterr().out
    result = json.loads((folder / "plan.json").read_text())
    best = result["best"][0]["layout"]
    assert result["answer"] == printed.splitlines()[0] and result["answer"].startswith("Take ")
    rows = (line[2:].partition(" ") for line in (folder / "megatron.args").read_text().splitlines())
    flags = {name: value for name, _, value in rows}
    assert int(flags["pipeline-model-parallel-size"]) == best["pipeline"] == 4
    assert int(flags["tensor-model-parallel-size"]) == best["tensor"]
    assert int(flags["micro-batch-size"]) == best["micro_batch"]
    page = (folder / "plan.html").read_text()
    assert "<figcaption>one_f_one_b</figcaption>" in page and "<figcaption>poise</figcaption>" in page
    assert f"<dd>{result['best'][0]['step_s']:.3f} s<small>" in page
    assert "`" not in " ".join(read(page).text), "what is code is marked as such"
    assert f"Written to {folder}: plan.html, plan.json" in printed and "- not for torchtitan" in printed
    assert "By the rules of *Efficient Parallelization Layouts*: " in printed
    schedule = read_file(folder / "schedule.json")
    assert (len(schedule.ranks), schedule.microbatches) == (4, 32 // (best["data"] * best["micro_batch"]))
    assert check(schedule) and f"{schedule.name}, is written as schedule.json" in page
    shares = [("--tensor", best["tensor"]), ("--replicas", best["data"])]
    options = "".join(f" {option} {count}" for option, count in shares if count > 1)
    assert f"poise train run TEXT --schedule schedule.json{options}</code>" in page
    assert sorted(path.name for path in folder.iterdir()) == [
        "figures", "figures.csv", "figures.parquet", "galvatron.json", "megatron.args", "megatron.sh", "plan.html",
        "plan.json", "schedule.json",
    ]  # fmt: skip


def test_what_cannot_fit_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "plan", "facebook/opt-175b", "--devices", "L4", "--gpus", "2", "--batch", "8", "--seq", "2048"]
    assert main([*words, "--out", str(tmp_path / "plan")]) == 2
    assert "layouts fits" in capsys.readouterr().err and not (tmp_path / "plan").exists()
