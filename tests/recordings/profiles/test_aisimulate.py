"""Tables in the layout that AISimulate installs: engines by folder, the newest version, columns that differ."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from poise.cli import main
from poise.cost.tables import load_tables
from poise.recordings.profiles.aisimulate import SOURCE
from poise.recordings.profiles.make import fitted_to
from poise.recordings.profiles.read import read_profiles
from tests.recordings.profiles.made import TRUTH, products

PREFILL = {
    "kernel_source": "fa", "batch_size": 1, "isl": 512, "num_heads": 8, "num_key_value_heads": 8, "head_dim": 128,
    "attn_dtype": "bfloat16", "kv_cache_dtype": "bfloat16", "step": 0, "latency": 0.5,
}  # fmt: skip
MODULE = {
    "op_name": "mla_context_module", "kernel_source": "x", "mla_dtype": "bfloat16", "kv_cache_dtype": "bfloat16",
    "gemm_type": "bfloat16", "num_heads": 16, "batch_size": 1, "isl": 256, "latency": 1.0,
}  # fmt: skip


def put(root: Path, name: str, table: pl.DataFrame, *, version: str = "0.24.0", kind: str = "gemm") -> None:
    """Write one file of the tree."""
    path = root / "systems" / "data" / "l40s" / kind / "vllm" / version
    path.mkdir(parents=True, exist_ok=True)
    table.write_parquet(path / f"{name}_perf.parquet")


def test_the_newest_version_counts_by_its_numbers_and_the_engine_is_that_of_the_folder(tmp_path: Path) -> None:
    bare = products(name="L40S").drop("framework", "version", "device")
    for version, factor in (("0.9.1", 3.0), ("0.24.0", 1.0), ("dev-1aa0e962", 5.0)):
        put(tmp_path, "gemm", bare.with_columns(pl.col("latency") * factor), version=version)
    rows = read_profiles(tmp_path).rows["gemm"]
    assert rows.height == bare.height
    assert set(rows["source"]) == {SOURCE}
    assert set(rows["framework"]) == {"vllm"}
    assert set(rows["device"]) == {"l40s"}
    assert rows["us"].sum() == pytest.approx((bare["latency"] * 1e3).sum())


def test_a_table_without_windows_attends_to_everything(tmp_path: Path) -> None:
    put(tmp_path, "context_attention", pl.DataFrame([PREFILL]), kind="attention")
    (row,) = read_profiles(tmp_path).rows["prefill"].to_dicts()
    assert (row["window"], row["past"], row["new"], row["us"]) == (0, 0, 512, 500.0)


def test_latent_attention_of_other_models_is_left_out(tmp_path: Path) -> None:
    models = ("deepseek-ai/DeepSeek-V3", "moonshotai/Kimi-K3")
    table = pl.DataFrame([{**MODULE, "model": model, "num_heads": 16 * at} for at, model in enumerate(models, 1)])
    put(tmp_path, "mla_context_module", table, kind="mla")
    assert read_profiles(tmp_path).rows["mla_prefill_module"]["heads"].to_list() == [16]


def test_operators_without_a_kind_are_counted(tmp_path: Path) -> None:
    put(tmp_path, "gemm", products(name="L40S"))
    put(tmp_path, "kda", pl.DataFrame({"latency": [1.0, 2.0]}), kind="kda")
    assert read_profiles(tmp_path).counts["systems/data"].other == {"kda": 2}


def test_tables_fitted_to_it_serve_a_scenario(tmp_path: Path) -> None:
    put(tmp_path, "gemm", products(name="L40S"))
    assert fitted_to(tmp_path) == ("systems/data",)
    assert main(["calibrate", "--profiles", str(tmp_path), "--out", str(tmp_path / "own.json")]) == 0
    (table,) = load_tables(tmp_path / "own.json").tables
    assert (table.device, table.framework) == ("L40S", "vllm")
    assert table.shape.arithmetic == pytest.approx(TRUTH.arithmetic, rel=0.1)
