"""Accuracy never silently falls: the measured sets are scored again beside the scores that landed last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.cli import DONE, main

LANDED = Path(__file__).parents[2] / "bench" / "validation.json"


@pytest.mark.slow
def test_no_group_is_worse_than_what_landed(data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = tmp_path / "scores.json"
    ended = main(["validate", str(data_dir), "--against", str(LANDED), "--json", str(scores), "--quiet"])
    assert ended == DONE, capsys.readouterr().err
    totals = [row for row in json.loads(scores.read_text()) if row["source"] == "all"]
    assert sum(row["answered"] for row in totals) >= 0.95 * sum(row["n"] for row in totals)
