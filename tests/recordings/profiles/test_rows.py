"""Rows are cleaned before anything is fitted: counted and left out, never averaged; shapes become coordinates."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.cost.operator import TILE
from poise.recordings.profiles.bounds import possible
from poise.recordings.profiles.layers import OLDER, parts
from poise.recordings.profiles.parts import Widths, moved, product
from poise.recordings.profiles.read import described, read_profiles
from poise.recordings.profiles.rows import clean, coordinates
from poise.recordings.profiles.vidur import fabric_device
from tests.recordings.profiles.made import folder, products


def rows(*times: tuple[int, float | None]) -> pl.DataFrame:
    """GEMMs of (m, us), otherwise alike."""
    about = {"source": "s", "device": "d", "framework": "f", "kernel": "", "format": "bf16", "n": 64, "k": 64}
    return pl.DataFrame({"m": [m for m, _ in times], "us": [us for _, us in times]}).with_columns(
        **{name: pl.lit(value) for name, value in about.items()}
    )


def test_no_numbers_repeats_and_contradictions_are_counted_and_left_out() -> None:
    kept, counts = clean(
        "gemm",
        rows(
            (1, 5.0),
            (2, 5.0), (2, 5.2),  # repeated
            (3, 5.0), (3, 6.0),  # contradictory: which is right?
            (4, float("nan")), (5, None), (6, 0.0), (7, float("inf")),
        ),
    )  # fmt: skip
    assert sorted(kept.select("m", "us").rows()) == [(1, 5.0), (2, 5.0)]
    assert (counts.read, counts.missing, counts.repeated, counts.contradictory) == (9, 4, 1, 2)


def test_what_was_left_out_is_counted(tmp_path: Path) -> None:
    table = products().head(20)
    spoilt = table.head(2).with_columns(pl.col("latency") * 2)
    profiles = read_profiles(folder(tmp_path, pl.concat([table, spoilt])))
    assert list(described(profiles)) == [
        "gpu_op_profiles: 22 rows; left out 0 without a time, 0 repeated, 4 contradictory",
    ]
    assert profiles.rows["gemm"].height == 18


def test_a_folder_without_profiles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no operator profiles; give a directory with one of gpu_op_profiles"):
        read_profiles(tmp_path)


@given(st.integers(1, 3000), st.integers(0, 5000), st.sampled_from((0, 1, 100, 1024)), st.integers(1, 9))
def test_a_prompt_loops_over_the_keys_that_its_queries_see(new: int, past: int, window: int, batch: int) -> None:
    shape = {"batch": batch, "new": new, "past": past, "heads": 8, "kv_heads": 2, "width": 128, "window": window}
    span, queries, group, width = coordinates("prefill", pl.DataFrame([shape])).row(0)
    pairs = sum(min(past + at, window) if window else past + at for at in range(1, new + 1))
    assert span == pytest.approx(max(pairs / new, TILE))
    assert (queries, group, width) == (batch * 8 * max(new, TILE), 4, 128)


def test_parts_of_a_layer_are_products_of_its_widths() -> None:
    llama = Widths(4096, 32, 8, 128, 14336, 128256)
    assert product("qkv_proj", llama, 1) == (6144, 4096)
    assert product("gate_up_proj", llama, 2) == (14336, 4096)
    assert product("mlp_down_proj", llama, 4) == (4096, 3584)
    assert product("act_fn", llama, 1) is None
    assert moved("act_fn", llama, 1) == 6 * 14336
    assert moved("sampler", llama, 1) == 4 * 128256
    assert moved("something else", llama, 1) is None
    mixtral = llama._replace(experts=8)
    assert product("expert.w1", mixtral, 2) == (7168, 4096)
    assert product("gate", mixtral, 4) == (8, 4096)
    assert product("gate", llama, 1) is None


def layers(**columns: object) -> pl.DataFrame:
    """Rows of layer parts of one model and rank."""
    return pl.DataFrame(columns).with_columns(
        pl.lit("s").alias("source"), pl.lit("H100").alias("device"), pl.lit("Llama-3.1-8B").alias("model"),
        pl.lit(1).alias("tp"),
    )  # fmt: skip


def test_bytes_of_many_tokens_do_not_overflow() -> None:
    tokens = pl.Series([1, 100_000], dtype=pl.Int32)
    ((kind, found),) = parts(layers(layer=["act_fn"] * 2, framework=["vllm"] * 2, tokens=tokens, us=[1.0, 2.0]))
    assert kind == "light"
    assert found["bytes"].to_list() == [86_016, 8_601_600_000]


def test_modules_of_pytorch_are_kernels_of_their_own() -> None:
    both = layers(layer=["act_fn"] * 2, framework=["vllm", OLDER], tokens=[1, 1], us=[1.0, 2.0])
    assert [found["kernel"].item() for _, found in parts(both)] == ["act", "eager act"]


@pytest.mark.parametrize(("us", "left_out"), [((10.0, 10.0, 10.0), 0), ((10.0, 10.0, 1.0), 0), ((10.0, 1.0, 1.0), 3)])
def test_a_kernel_that_mostly_beats_the_datasheet_is_left_out_whole(us: tuple[float, ...], left_out: int) -> None:
    """4,096 × 4,096 weights of 16 bits take an H100 10.0 µs to read."""
    shapes = rows(*((m, 1.01 * each) for m, each in enumerate(us, 1)))
    shapes = shapes.with_columns(device=pl.lit("H100"), n=pl.lit(4096), k=pl.lit(4096))
    kept, count = possible("gemm", shapes)
    assert (kept.height, count) == (3 - left_out, left_out)


def test_impossible_kernels_are_counted_and_unanswered(tmp_path: Path) -> None:
    slow = products()
    root = folder(tmp_path, slow.with_columns(pl.col("latency") / 100))
    profiles = read_profiles(root)
    assert profiles.rows["gemm"].is_empty()
    assert "not modelled: gemm faster than the device 686" in next(iter(described(profiles)))


def test_ranks_beyond_a_bridged_pair_are_cards_on_pcie() -> None:
    table = pl.DataFrame({"fabric": ["a100_dgx", "h100_pairwise_nvlink", "h100_pairwise_nvlink"], "ranks": [8, 2, 4]})
    found = table.select(fabric_device("fabric", "ranks").alias("device"))["device"].to_list()
    assert found == ["a100", "h100", "H100-NVL"]
