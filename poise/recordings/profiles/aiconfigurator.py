"""`gpu_op_profiles/<device>/<operator>.parquet`: tables of the AIConfigurator performance database, in ms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import polars as pl

from poise.recordings.profiles.formats import bits, form, matrices, skew

Rows = Iterator[tuple[str, pl.DataFrame]]
Reader = Callable[[pl.DataFrame, list[pl.Expr]], Rows]

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


def _modules(table: pl.DataFrame, about: list[pl.Expr]) -> Rows:
    """Whole latent attention: the format is that of projections; the kernel's name has the cache's and, where an
    engine was set to one, that. Engines take a prompt of one token for a decode: it is left out."""
    stated = "gemm_type" if "gemm_type" in table.columns else "mla_dtype"
    narrow = pl.when(C("kv_cache_dtype") == "fp8").then(pl.lit(" kv8")).otherwise(pl.lit(""))
    computed = pl.when(C("mla_dtype") == "fp8").then(pl.lit(" fp8")).otherwise(pl.lit(""))
    chosen = pl.when(C("framework") == "SGLang").then(C("kernel_source")).otherwise(pl.lit("module"))
    kernel = (chosen + computed + narrow).alias("kernel")
    shared = [*about[:3], kernel, form(stated), US, C("batch_size").alias("batch"), C("num_heads").alias("heads")]
    if "context" in table["op_name"][0]:
        yield "mla_prefill_module", table.filter(C("isl") > 1).select(*shared, new="isl")
        return
    yield "mla_decode_module", table.select(*shared, context=C("isl") + C("step"))


def _moe_ep(table: pl.DataFrame, about: list[pl.Expr]) -> Rows:
    """Experts of one rank without the exchange; copies of busy experts (`eplb`) make kernels of their own."""
    graph = " graph" if table["op_name"][0] == "moe_generation" else ""
    copied = pl.when(C("op_name").str.ends_with("eplb")).then(pl.lit(" eplb")).otherwise(pl.lit(graph))
    slots = C("num_slots") if "num_slots" in table.columns else C("num_experts")
    rows = table.select(
        *about[:3], (C("kernel_source") + copied).alias("kernel"), form("moe_dtype"), "topk", US, tokens="num_tokens",
        hidden="hidden_size", inter="inter_size", experts="num_experts", slots=slots, ep="moe_ep_size",
        skew=skew("distribution"),
    )  # fmt: skip
    yield "moe_ep", rows.with_columns(matrices())


def _normal(table: pl.DataFrame, about: list[pl.Expr]) -> Rows:
    """DeepEP's normal mode, by the SMs that it is given."""
    for kind in ("dispatch", "combine"):
        us = C(f"{kind}_transmit_us").cast(pl.Float64) + C(f"{kind}_notify_us").cast(pl.Float64)
        yield f"{kind}_normal", table.select(
            *about[:3], (pl.lit("deepep sms ") + C(f"{kind}_sms").cast(pl.String)).alias("kernel"), BF16,
            tokens="num_token", hidden="hidden_size", topk="num_topk", experts="num_experts", ranks=8 * C("node_num"),
            nodes="node_num", us=us,
        )  # fmt: skip


def _exchange(table: pl.DataFrame, about: list[pl.Expr]) -> Rows:
    for kind in ("dispatch", "combine"):
        yield kind, table.select(
            *about[:3], pl.lit("deepep ll").alias("kernel"), BF16, tokens="num_token", hidden="hidden_size",
            topk="num_topk", experts="num_experts", ranks=8 * C("node_num"), nodes="node_num",
            us=C(f"{kind}_avg_t_us").cast(pl.Float64),
        )  # fmt: skip


READERS: Final[dict[str, Reader]] = {
    "gemm": _gemm,
    "context_attention": _prefill,
    "generation_attention": _decode,
    "context_mla": _mla_prefill,
    "generation_mla": _mla_decode,
    "moe": _moe,
    "custom_allreduce": _all_reduce,
    "nccl": _nccl,
    "wideep_deepep_ll": _exchange,
    "wideep_deepep_normal": _normal,
    **dict.fromkeys(("wideep_context_moe", "wideep_generation_moe", "wideep_moe"), _moe_ep),
    **dict.fromkeys(
        ("mla_context_module", "mla_generation_module", "wideep_context_mla", "wideep_generation_mla"), _modules
    ),
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
