"""Tables of a folder that no reader takes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.cli import main
from poise.validation.unread import in_words, unread
from tests.validation.training.made import made, table

READ = (
    "fidelity/serving_e2e.csv", "fidelity_training/any.csv", "new/fidelity_training/more.csv",
    "training_iteration_times/vtrain_multi_node.csv.gz", "training_iteration_times/llama_layouts_a100.csv.gz",
    "gpu_op_profiles/h100/gemm.parquet", "vllm_end_to_end/run/steps.csv", "helix_profiles/batch_to_time.csv.gz",
    "simulator_reference_errors/published_errors.csv.gz",
)  # fmt: skip
LEFT = ("effects/energy.csv", "fidelity/other.csv", "traces/a.parquet", "training_iteration_times/new.csv.gz")


def test_only_what_no_reader_takes_is_named(tmp_path: Path) -> None:
    for name in (*READ, *LEFT, "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert unread(tmp_path) == list(LEFT)


def test_the_line_names_three() -> None:
    assert in_words([]) == ""
    assert in_words(["a"]) == "Not read: 1 table (a)."
    assert in_words(list("abcd")) == "Not read: 4 tables (a, b, c, …)."


def test_validate_says_what_it_did_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fidelity_training").mkdir()
    (tmp_path / "fidelity_training" / "runs.csv").write_text(table(made()))
    (tmp_path / "later.csv").write_text("a\n1\n")
    assert main(["validate", str(tmp_path), "--jobs", "1"]) == 0
    assert "Not read: 1 table (later.csv)." in capsys.readouterr().out
    assert main(["validate", str(tmp_path), "--jobs", "1", "--tables"]) == 0
    assert "not read: later.csv" in capsys.readouterr().out
