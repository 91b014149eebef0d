"""Tables made from profiles: known coefficients come back, errors are of shapes held out, files are read again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from poise.catalogue import device
from poise.cli import main
from poise.cost import Measured
from poise.cost.tables import load_tables
from poise.recordings.profiles.bulk import predict
from poise.recordings.profiles.make import make, save
from poise.recordings.profiles.read import read_profiles
from tests.recordings.profiles.made import SIZES, TRUTH, folder, products


def test_known_coefficients_come_back(tmp_path: Path) -> None:
    tables = make(read_profiles(folder(tmp_path, products(noise=0.02))), "2026-11-22")
    (table,) = tables.tables
    assert table.device == "H100-SXM-80GB"
    assert table.shape.fixed_s == pytest.approx(TRUTH.fixed_s, rel=0.1)
    assert table.shape.arithmetic == pytest.approx(TRUTH.arithmetic, rel=0.1)
    assert table.shape.bandwidth == pytest.approx(TRUTH.bandwidth, rel=0.1)
    assert 0.005 < table.error.median < 0.04
    assert table.error.p90 < 0.1
    assert table.lent.median == 1.0  # no other device could have lent


def test_saved_tables_answer_as_those_that_were_made_and_many_as_one(tmp_path: Path) -> None:
    made = make(read_profiles(folder(tmp_path, products())), "2026-11-22")
    save(made, tmp_path / "tables.json")
    again = load_tables(tmp_path / "tables.json")
    assert again.about["date"] == "2026-11-22"
    assert "Apache-2.0" in again.about["sources"][0]
    assert again.tables == made.tables
    at = np.array([(m, n, 1024.0) for m in (1, 3, 700, 50_000) for n in (*map(float, SIZES), 100_000.0)])
    curve = again.curve("gemm", device("H100"), "bf16")
    assert curve is not None
    assert predict(curve.table, curve.figures, at) == pytest.approx([curve.seconds(*row) for row in at])


def test_the_command_writes_tables_that_a_scenario_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = folder(tmp_path, products()), tmp_path / "own.json"
    assert main(["calibrate", "--profiles", str(source), "--out", str(out)]) == 0
    assert "gpu_op_profiles: 686 rows" in capsys.readouterr().out
    assert len(load_tables(out).tables) == 1
    assert Measured(tables=str(out)).tables == str(out)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--profiles", "."], "--out"),
        (["--profiles", ".", "--out", "x.json"], "holds no operator profiles"),
        (["recording", "--profiles", "."], "leave them"),
        ([], "nothing to fit to"),
    ],
)
def test_what_the_command_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", *options]) == 2
    assert expected in " ".join(capsys.readouterr().err.split())
