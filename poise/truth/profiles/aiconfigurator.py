"""`gpu_op_profiles/<device>/<operator>.parquet`: tables of the AIConfigurator performance database, in ms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from poise.truth.profiles.formats import bits, form, matrices, skew

C = pl.col
SOURCE = "gpu_op_profiles"
NCCL = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}


def read(folder: Path) -> Iterator[tuple[str, pl.DataFrame]]:
    """(kind, rows) of every table; of operators without a kind, (name, rows) as they are."""
    for path in sorted(folder.glob("*/*.parquet")):
        table = pl.read_parquet(path).with_columns(C(pl.Categorical).cast(pl.String))
        yield from _rows(path.stem, table, path.parent.name)


def _rows(name: str, table: pl.DataFrame, device: str) -> Iterator[tuple[str, pl.DataFrame]]:
    about = [
        pl.lit(SOURCE).alias("source"),
        pl.lit(device).alias("device"),
        (C("framework").str.to_lowercase() if name != "nccl" else pl.lit("nccl")).alias("framework"),
        C("kernel_source").alias("kernel"),
    ]
    us = (C("latency").cast(pl.Float64) * 1e3).alias("us") if "latency" in table.columns else pl.lit(None)
    if name == "gemm":
        yield "gemm", table.select(*about, form("gemm_dtype"), "m", "n", "k", us)
    elif name == "context_attention":
        yield (
            "prefill",
            table.select(*about, bits("attn_dtype", "kv_cache_dtype"), *_heads(), new="isl", past="step", us=us),
        )
    elif name == "generation_attention":
        yield (
            "decode",
            table.select(*about, bits("attn_dtype", "kv_cache_dtype"), *_heads(), context=C("isl") + C("step"), us=us),
        )
    elif name == "context_mla":
        yield (
            "mla_prefill",
            table.select(
                *about,
                bits("mla_dtype", "kv_cache_dtype"),
                batch="batch_size",
                new="isl",
                past="step",
                heads="num_heads",
                us=us,
            ),
        )
    elif name == "generation_mla":
        yield (
            "mla_decode",
            table.select(
                *about,
                bits("mla_dtype", "kv_cache_dtype"),
                batch="batch_size",
                context=C("isl") + C("step"),
                heads="num_heads",
                us=us,
            ),
        )
    elif name == "moe":
        rows = table.select(
            *about, form("moe_dtype"), "topk", tokens="num_tokens", hidden="hidden_size", inter="inter_size",
            experts="num_experts", tp="moe_tp_size", ep="moe_ep_size", skew=skew("distribution"), us=us,
        )  # fmt: skip
        yield "moe", rows.with_columns(matrices())
    elif name == "custom_allreduce":
        size = C("message_size") * 2
        yield (
            "all_reduce",
            table.select(*about, pl.lit("bf16").alias("format"), bytes=size, ranks="num_gpus", nodes=pl.lit(1), us=us),
        )
    elif name == "nccl":
        size = C("message_size") * pl.when(C("nccl_dtype") == "int8").then(1).otherwise(2)
        for key, part in table.group_by("op_name", maintain_order=True):
            kernel = (C("kernel_source") + " " + C("nccl_dtype")).alias("kernel")
            yield (
                NCCL.get(str(key[0]), str(key[0])),
                part.select(
                    *about[:3],
                    kernel,
                    pl.lit("bf16").alias("format"),
                    bytes=size,
                    ranks="num_gpus",
                    nodes=pl.lit(1),
                    us=us,
                ),
            )
    elif name == "wideep_deepep_ll":
        for kind in ("dispatch", "combine"):
            yield kind, table.select(
                *about[:3], pl.lit("deepep ll").alias("kernel"), pl.lit("bf16").alias("format"), tokens="num_token",
                hidden="hidden_size", topk="num_topk", experts="num_experts", ranks=8 * C("node_num"), nodes="node_num",
                us=C(f"{kind}_avg_t_us").cast(pl.Float64),
            )  # fmt: skip
    else:
        yield name, table


def _heads() -> list[pl.Expr]:
    return [
        C("batch_size").alias("batch"),
        C("num_heads").alias("heads"),
        C("num_key_value_heads").alias("kv_heads"),
        C("head_dim").alias("width"),
        C("window_size").fill_null(0).clip(0).alias("window"),
    ]
