"""Rows are cleaned before anything is fitted: counted and left out, never averaged; shapes become coordinates."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.cost.operator import TILE
from poise.truth.profiles.parts import Widths, moved, product
from poise.truth.profiles.read import read_profiles, told
from poise.truth.profiles.rows import clean, coordinates
from tests.truth.profiles.made import folder, products


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


def test_what_was_left_out_is_told(tmp_path: Path) -> None:
    table = products().head(20)
    spoilt = table.head(2).with_columns(pl.col("latency") * 2)
    profiles = read_profiles(folder(tmp_path, pl.concat([table, spoilt])))
    assert list(told(profiles)) == [
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
    assert moved("sampler", llama, 1) is None
