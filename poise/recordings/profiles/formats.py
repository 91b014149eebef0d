"""Formats' names in profiles, and the formats here that they stand for."""

from __future__ import annotations

import polars as pl

C = pl.col

NAMES = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "bf16",
    "fp16": "bf16",
    "half": "bf16",
    "fp16/bf16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "sq": "int8",
    "int8_wo": "int8_wo",
    "int4_wo": "int4_wo",
    "nvfp4": "nvfp4",
    "w4a16_mxfp4": "mxfp4_wo",
    "w4a8_mxfp4_mxfp8": "mxfp4_fp8",
}
"""Names of formats in profiles; FP16 runs as BF16 does."""


def form(column: str) -> pl.Expr:
    """The format here of a profile's name; an unknown one keeps its own."""
    return C(column).replace(NAMES).alias("format")


def bits(attention: str, cache: str) -> pl.Expr:
    """The format of attention: FP8 computed, or BF16 with a cache of 16 or 8 bits."""
    narrow = C(cache).is_in(["fp8", "int8"])
    computed = C(attention).replace(NAMES)
    return (
        pl.when(computed == "fp8").then(pl.lit("fp8"))
        .when(narrow).then(pl.lit("bf16_kv8"))
        .otherwise(computed).alias("format")
    )  # fmt: skip


def skew(column: str) -> pl.Expr:
    """100 × the exponent of a power law over experts, 0 for balanced or uniform loads."""
    return (C(column).str.extract(r"power_law_([0-9.]+)").cast(pl.Float64).fill_null(0) * 100).round().cast(pl.Int64)


PLAIN = ((2688, 1856), (2048, 5120), (8192, 5120), (1024, 2688), (4096, 2688))
"""(hidden, inter) of experts that are not gated: shapes of kernels that profiles name so, and their relatives."""


def matrices() -> pl.Expr:
    """Matrices of an expert: 3, or 2 where it is not gated; most kernels' names do not say so."""
    plain = pl.any_horizontal((C("hidden") == hidden) & (C("inter") == inter) for hidden, inter in PLAIN)
    return pl.when(plain).then(2).otherwise(3).alias("matrices")
