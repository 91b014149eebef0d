"""`poise experts plan`: from a load to files that engines read, and a line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from poise.cli import main
from poise.cost.expert_files import read_counts
from poise.scenario.experts import read_placement


def load(folder: Path, layers: int = 16, experts: int = 64) -> Path:
    """A CSV of a skewed load."""
    draw = np.random.default_rng(0)
    rows = [
        f"{layer},{expert},{round(1000 * draw.lognormal())}" for layer in range(layers) for expert in range(experts)
    ]
    file = folder / "load.csv"
    file.write_text("\n".join(["layer,expert,count", *rows]), encoding="utf-8")
    return file


def run(*given: str) -> int:
    """The exit code of a command line."""
    return main(["experts", "plan", *given])


OPTIONS = ("--model", "olmoe-1b-7b", "--ranks", "8", "--redundant", "8", "--device", "H100")


def test_a_plan_gains_and_its_files_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = load(tmp_path)
    assert run(str(file), *OPTIONS, "--out", str(tmp_path / "out"), "--json", "-") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["bound"]["mean"] >= result["chosen"]["balance"]["mean"] > result["in_force"]["balance"]["mean"]
    assert result["chosen"]["prefill_s"] < result["in_force"]["prefill_s"]
    assert result["steps_to_repay"]["prefill"] > 0
    placement = read_placement(tmp_path / "out" / "sglang.json", range(16), 64, 8)
    assert placement.balance(read_counts(file)).mean() == pytest.approx(result["chosen"]["balance"]["mean"])
    assert json.loads((tmp_path / "out" / "vllm.json").read_text())["num_redundant_experts"] == 8


def test_a_budget_starts_from_what_is_in_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = load(tmp_path)
    assert run(str(file), *OPTIONS, "--moves", "20", "--out", str(tmp_path / "out"), "--json", "-") == 0
    first = json.loads(capsys.readouterr().out)
    assert first["balancer"] == "few_moves" and 0 < first["chosen"]["fetched"] <= 20
    placed = str(tmp_path / "out" / "sglang.json")
    assert run(str(file), *OPTIONS, "--moves", "0", "--placed", placed, "--json", "-") == 0
    again = json.loads(capsys.readouterr().out)
    assert again["in_force"]["balance"] == first["chosen"]["balance"]
    assert again["chosen"]["fetched"] == 0 and again["steps_to_repay"]["prefill"] is None


def test_router_logits_are_counted_by_their_largest(tmp_path: Path) -> None:
    logits = np.zeros((5, 2, 4))
    logits[:, 0, 1], logits[:, 0, 3], logits[:3, 1, 2] = 2.0, 1.0, 1.0
    np.save(tmp_path / "logits.npy", logits)
    assert read_counts(tmp_path / "logits.npy", 2).tolist() == [[0, 5, 0, 5], [5, 2, 3, 0]]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("--model", "llama-3.1-8b"), "has no experts; name a mixture"),
        (("--model", "deepseek-v3"), "has 64 experts a layer, and"),
        (("--redundant", "3"), "--redundant 3: 64 experts and as many copies do not divide by 8 ranks; give 8"),
        (("--nodes", "3"), "ranks: 8 do not divide by 3 nodes"),
        (("--groups", "7"), "groups: 64 experts do not divide by 7"),
        (("--balancer", "eplp"), "did you mean eplb"),
        (("--balancer", "exflow"), "exflow: reads tokens by pairs of experts"),
        (("--placed", "nowhere.json"), "holds no physical_to_logical_map"),
    ],
)
def test_a_mistake_is_one_line(
    change: tuple[str, str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(load(tmp_path)), *OPTIONS, *change) == 2
    error = capsys.readouterr().err
    assert expected in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("layer,expert,count\n0,0,-1\n0,1,2", "counts of 0 or more"),
        ("layer,expert,count\n0,0,nan\n0,1,2", "counts of 0 or more"),
        ("layer,expert\n0,0", "cannot be read as a load"),
        ("layer,expert,count\n0,63,0", "no expert of any layer has a token"),
    ],
)
def test_counts_that_cannot_be_are_one_line(
    rows: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "load.csv"
    file.write_text(rows, encoding="utf-8")
    assert run(str(file), *OPTIONS) == 2
    error = capsys.readouterr().err
    assert expected in error and error.count("\n") == 1
