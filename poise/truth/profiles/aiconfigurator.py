"""`gpu_op_profiles/<device>/<operator>.parquet`: tables of the AIConfigurator performance database, in ms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import polars as pl

from poise.truth.profiles.formats import bits, form, matrices, skew

Rows = Iterator[tuple[str, pl.DataFrame]]

C = pl.col
US = (pl.col("latency").cast(pl.Float64) * 1e3).alias("us")
BF16 = pl.lit("bf16").alias("format")
SOURCE = "gpu_op_profiles"
NCCL = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}


def read(folder: Path) -> Rows:
    """(kind, rows) of every table; of operators without a kind, (name, rows) as they are."""
    for path in sorted(folder.glob("*/*.parquet")):
        table = pl.read_parquet(path).with_columns(C(pl.Categorical).cast(pl.String))
        yield from _rows(path.stem, table, path.parent.name)


def _rows(name: str, table: pl.DataFrame, device: str) -> Rows:
    if name not in READERS:
        yield name, table
        return
    about = [
        pl.lit(SOURCE).alias("source"),
        pl.lit(device).alias("device"),
        (C("framework").str.to_lowercase() if name != "nccl" else pl.lit("nccl")).alias("framework"),
        C("kernel_source").alias("kernel"),
    ]
    yield from READERS[name](table, about)


def _gemm(table: pl.DataFrame, about: list[pl.Expr]) -> Rows:
    yield "gemm", table.select(*about, form("gemm_dtype"), "m", "n", "k", US)


def _prefill(table: pl.DataFrame, about: list[pl.Expr]) -> Rows:
    stored = bits("attn_dtype", "kv_cache_dtype")
    yield "prefill", table.select(*about, stored, *_heads(), US, new="isl", past="step")


def _decode(table: pl.DataFrame, about: list[pl.Expr]) -> Rows:
    stored = bits("attn_dtype", "kv_cache_dtype")
    yield "decode", table.select(*about, stored, *_heads(), US, context=C("isl") + C("step"))


def _mla_prefill(table: pl.DataFrame, about: list[pl.Expr]) -> Rows:
    stored = bits("mla_dtype", "kv_cache_dtype")
    yield (
        "mla_prefill",
        table.select(*about, stored, US, batch="batch_size", new="isl", past="step", heads="num_heads"),
    )


def _mla_decode(table: pl.DataFrame, about: list[pl.Expr]) -> Rows:
    stored = bits("mla_dtype", "kv_cache_dtype")
    context = C("isl") + C("step")
    yield "mla_decode", table.select(*about, stored, US, batch="batch_size", context=context, heads="num_heads")


def _moe(table: pl.DataFrame, about: list[pl.Expr]) -> Rows:
    rows = table.select(
        *about, form("moe_dtype"), "topk", US, tokens="num_tokens", hidden="hidden_size", inter="inter_size",
        experts="num_experts", tp="moe_tp_size", ep="moe_ep_size", skew=skew("distribution"),
    )  # fmt: skip
    yield "moe", rows.with_columns(matrices())


def _all_reduce(table: pl.DataFrame, about: list[pl.Expr]) -> Rows:
    size = C("message_size") * 2
    yield "all_reduce", table.select(*about, BF16, US, bytes=size, ranks="num_gpus", nodes=pl.lit(1))


def _nccl(table: pl.DataFrame, about: list[pl.Expr]) -> Rows:
    size = C("message_size") * pl.when(C("nccl_dtype") == "int8").then(1).otherwise(2)
    kernel = (C("kernel_source") + " " + C("nccl_dtype")).alias("kernel")
    for key, part in table.group_by("op_name", maintain_order=True):
        rows = part.select(*about[:3], kernel, BF16, US, bytes=size, ranks="num_gpus", nodes=pl.lit(1))
        yield NCCL.get(str(key[0]), str(key[0])), rows


def _exchange(table: pl.DataFrame, about: list[pl.Expr]) -> Rows:
    for kind in ("dispatch", "combine"):
        yield kind, table.select(
            *about[:3], pl.lit("deepep ll").alias("kernel"), BF16, tokens="num_token", hidden="hidden_size",
            topk="num_topk", experts="num_experts", ranks=8 * C("node_num"), nodes="node_num",
            us=C(f"{kind}_avg_t_us").cast(pl.Float64),
        )  # fmt: skip


READERS: Final[dict[str, Callable[[pl.DataFrame, list[pl.Expr]], Rows]]] = {
    "gemm": _gemm,
    "context_attention": _prefill,
    "generation_attention": _decode,
    "context_mla": _mla_prefill,
    "generation_mla": _mla_decode,
    "moe": _moe,
    "custom_allreduce": _all_reduce,
    "nccl": _nccl,
    "wideep_deepep_ll": _exchange,
}
"""Who reads each table; those of other names are only counted."""


def _heads() -> list[pl.Expr]:
    return [
        C("batch_size").alias("batch"),
        C("num_heads").alias("heads"),
        C("num_key_value_heads").alias("kv_heads"),
        C("head_dim").alias("width"),
        C("window_size").fill_null(0).clip(0).alias("window"),
    ]
