"""Operators judged against profiles: exact ones are met, others borrow, unknown ones are counted, not answered."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from poise.catalogue import device
from poise.cli import DONE, main
from poise.cost.tables import load_tables
from poise.recordings.profiles.make import make
from poise.recordings.profiles.read import read_profiles
from poise.validation.operators import _side_by_side, answers, operator_scores, operators
from poise.validation.score import ALL
from tests.recordings.profiles.made import TRUTH, folder, products


def test_a_device_that_was_measured_is_met(tmp_path: Path) -> None:
    root = folder(tmp_path, products())
    (row,) = operators(root, make(read_profiles(root), "2026-11-22"))
    assert (row["source"], row["device"], row["engine"], row["metric"]) == (
        "gpu_op_profiles",
        "h100_sxm",
        "vllm",
        "op:gemm",
    )
    assert row["n"] == row["answered"] == 686
    assert row["median_ape"] < 0.02
    assert abs(row["bias"]) < 0.02
    assert row["median_ape"] < row["naive_median_ape"]
    assert row["how"] == "measured"


def test_another_device_borrows_and_says_so(tmp_path: Path) -> None:
    tables = make(read_profiles(folder(tmp_path / "one", products())), "2026-11-22")
    other = folder(tmp_path / "other", products(name="H200"), "h200_sxm")
    (row,) = operators(other, tables)
    assert row["how"] == "borrowed from H100-SXM-80GB"
    assert row["answered"] == row["n"]
    assert row["median_ape"] < 0.05  # efficiencies carry over exactly; only the grid between its nodes does not
    slower = folder(tmp_path / "slower", products(TRUTH._replace(arithmetic=0.35, bandwidth=0.4), "H200"), "h200_sxm")
    assert operators(slower, tables)[0]["bias"] < -0.2


def test_unseen_judges_a_device_by_the_others(tmp_path: Path) -> None:
    root = folder(tmp_path, products())
    tables = make(read_profiles(root), "2026-11-22")
    (row,) = operators(root, tables, unseen=True)
    assert row["answered"] == 0
    assert row["median_ape"] is None


def test_a_device_that_is_unknown_is_counted_not_answered(tmp_path: Path) -> None:
    root = folder(tmp_path, products(), "abacus_9000")
    (row,) = operators(root)
    assert (row["device"], row["answered"], row["n"]) == ("abacus_9000", 0, 686)
    assert row["bias"] is row["p90_ape"] is None
    assert row["how"] == "device or format not known"


@pytest.mark.parametrize("kinds", (("gemm",),))
def test_the_shipped_tables_answer_known_devices(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    root = folder(tmp_path, products())
    assert [row["metric"] for row in operators(root)] == [f"op:{kind}" for kind in kinds]
    assert operators(root)[0]["answered"] == 686


def test_scores_of_operators_have_totals_and_say_what_was_read(tmp_path: Path) -> None:
    root = folder(tmp_path, products())
    (found,) = operators(root)
    (one, total), (line,) = operator_scores(root)
    assert (one.source, one.n, one.median_ape) == (found["source"], found["n"], found["median_ape"])
    assert (total.source, total.device, total.metric, total.n) == (ALL, ALL, "op:gemm", 686)
    assert line.startswith("gpu_op_profiles: 686 rows; left out 0 without a time")
    assert operator_scores(tmp_path / "nothing") == ([], [])


def test_a_folder_of_profiles_alone_is_validated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, out = folder(tmp_path, products()), tmp_path / "scores.json"
    assert main(["validate", str(root), "--json", str(out)]) == DONE
    assert [(row["source"], row["metric"], row["answered"]) for row in json.loads(out.read_text())] == [
        ("gpu_op_profiles", "op:gemm", 686),
        (ALL, "op:gemm", 686),
    ]
    assert capsys.readouterr().out.startswith("Operators: 1 kind, off by ")
    assert main(["validate", str(root), "--tables"]) == DONE
    assert "686 rows; left out 0" in capsys.readouterr().out


def test_a_chunk_and_decodes_in_one_kernel_run_side_by_side() -> None:
    curve = load_tables().curve("prefill", device("RTX-4090"), "bf16", "vllm")
    assert curve is not None
    shape = {"batch": 16, "new": 100, "past": 28, "context": 4096, "heads": 32, "kv_heads": 8, "width": 128}
    found = _side_by_side(curve, 64, pl.DataFrame([{**shape, "window": 0}])).item()
    spans, queries = (28 + 101 / 2, 4096.0), (128 * 32.0, 16 * 64 * 32.0)
    mean = sum(span * many for span, many in zip(spans, queries, strict=True)) / sum(queries)
    alone = [curve.seconds(span, many, 4.0, 128.0) for span, many in zip(spans, queries, strict=True)]
    assert found == pytest.approx(max(*alone, curve.seconds(mean, sum(queries), 4.0, 128.0)))


def test_ranks_that_no_links_table_joins_go_by_the_closed_form(tmp_path: Path) -> None:
    table = pl.DataFrame({"num_workers": [2, 4], "size": [1 << 26] * 2, "time_ms": [0.1] * 2}).with_columns(
        collective=pl.lit("all_reduce"), fabric=pl.lit("a100_pairwise_nvlink"), devices_per_node="num_workers"
    )
    (tmp_path / "vidur_profiles").mkdir()
    table.write_parquet(tmp_path / "vidur_profiles" / "collectives.parquet")
    found = {each.device: each for each in answers(read_profiles(tmp_path), load_tables())}
    bridged, over = found["a100"], found["A100-PCIe-80GB"]
    assert over.ratio == over.naive
    assert bridged.ratio.item() < over.ratio.item() / 3
