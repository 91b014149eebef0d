"""Own measured points: what they say of a deployment, and one line for a table that says nothing."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from pathlib import Path

import pytest

from poise.core.errors import UserError
from poise.intervals.own import load_own
from poise.intervals.shipped import interval_of
from poise.validation.answer import answer_rows
from poise.validation.evidence import conditions_of
from poise.validation.own import calibrate_points, own_of
from poise.validation.row import read_rows

HEAD = "source,engine,engine_version,model,gpu,n_gpus,tp,precision,isl,osl,concurrency_or_rate,metric,value,unit\n"
ROW = "mine,vLLM,0.14.0,{model},L4,1,1,fp8,1000,200,rate=1,{metric},{value},ms\n"


def table(folder: Path, *rows: str) -> Path:
    """A table of points."""
    path = folder / "points.csv"
    path.write_text(HEAD + "".join(rows))
    return path


def test_what_is_expected_says_nothing_and_a_slower_deployment_says_by_how_much(tmp_path: Path) -> None:
    rows, _ = read_rows(table(tmp_path, ROW.format(model="Llama-3.1-8B", metric="tpot_p99_ms", value=1)))
    (answer,) = answer_rows(rows)
    assert answer.predicted is not None
    expected = answer.predicted * interval_of(conditions_of(answer)).factor(0.5)
    measured = [replace(answer, row=replace(answer.row, value=expected * times)) for times in (1.0, 1.5)]
    (same,) = own_of(measured[:1]).found
    assert same.log == pytest.approx(0.0) and same.deployment.figure == "tpot" and same.deployment.device == "L4"
    (both,) = own_of(measured).found
    assert both.rows == 2 and exp(both.log) == pytest.approx(exp(log(1.5) / 2))


def test_points_are_kept_and_rows_without_an_answer_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = ROW.format(model="Llama-3.1-8B", metric="ttft_p99_ms", value=400)
    calibrate_points(
        table(tmp_path, good, ROW.format(model="nothing", metric="ttft_ms", value=1)), tmp_path / "o", False
    )
    assert "not read: points.csv: line 3" in capsys.readouterr().out
    (found,) = load_own(tmp_path / "o").found
    assert found.rows == 1 and found.deployment.weights == "fp8"


def test_a_table_that_says_nothing_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no row is answered"):
        calibrate_points(table(tmp_path), tmp_path / "own.json", False)
    with pytest.raises(UserError, match="give --out FILE"):
        calibrate_points(table(tmp_path), None, False)
    assert not (tmp_path / "own.json").exists()
