"""`vidur_profiles`: layer parts, attention and collectives of Vidur, medians in ms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from poise.recordings.profiles.layers import parts

C = pl.col
SOURCE = "vidur_profiles"
BRIDGED = {"a100_pairwise_nvlink": "A100-PCIe-80GB", "h100_pairwise_nvlink": "H100-NVL"}
"""The cards of fabrics in which NVLink bridges pairs."""


def read(folder: Path) -> Iterator[tuple[str, pl.DataFrame]]:
    """(kind, rows) of every table that is there."""
    for name, reader in (("mlp", _layers), ("attention_a100", _attention), ("attention_a30", _attention)):
        path = folder / f"{name}.parquet"
        if path.is_file():
            yield from reader(pl.read_parquet(path).with_columns(C(pl.Categorical).cast(pl.String)))
    path = folder / "collectives.parquet"
    if path.is_file():
        yield from _collectives(pl.read_parquet(path).with_columns(C(pl.Categorical).cast(pl.String)))


def _layers(table: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    times = [name for name in table.columns if name.endswith("_ms")]
    about = ["model", "source", "device", "framework", "tokens", "tp"]
    long = table.select(
        "model",
        *times,
        source=pl.lit(SOURCE),
        device="gpu",
        framework=pl.lit("vidur"),
        tokens="num_tokens",
        tp="num_tensor_parallel_workers",
    ).unpivot(times, index=about, variable_name="layer", value_name="ms")
    named = long.drop_nulls("ms").with_columns(C("layer").str.strip_suffix("_ms"), us=C("ms").cast(pl.Float64) * 1e3)
    yield from parts(named)


def _attention(table: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    tp = C("num_tensor_parallel_workers")
    about = [
        pl.lit(SOURCE).alias("source"),
        C("gpu").alias("device"),
        pl.lit("vidur").alias("framework"),
        C("attention_backend").str.split(".").list.last().alias("kernel"),
        pl.lit("bf16").alias("format"),
        C("batch_size").alias("batch"),
        (C("n_q_head") // tp).alias("heads"),
        (C("n_kv_head") // tp).alias("kv_heads"),
        (C("n_embd") // C("n_q_head")).alias("width"),
        pl.lit(0).alias("window"),
    ]
    prefill = table.filter("is_prefill").select(
        *about, new="prefill_chunk_size", past="kv_cache_size", us=C("attn_prefill_ms").cast(pl.Float64) * 1e3
    )
    decode = table.filter(~C("is_prefill")).select(
        *about, context="kv_cache_size", us=C("attn_decode_ms").cast(pl.Float64) * 1e3
    )
    yield "prefill", prefill
    yield "decode", decode.filter(C("context") > 0)


def fabric_device(fabric: str, ranks: str) -> pl.Expr:
    """The device behind a fabric: where NVLink bridges pairs only, more ranks speak over PCIe."""
    apart = C(fabric).str.contains("pairwise") & (C(ranks) > 2)
    return (
        pl.when(apart)
        .then(C(fabric).replace_strict(BRIDGED, default=None))
        .otherwise(C(fabric).str.split("_").list.first())
    )


def _collectives(table: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    for key, part in table.group_by("collective", maintain_order=True):
        yield (
            str(key[0]),
            part.select(
                pl.lit(SOURCE).alias("source"),
                fabric_device("fabric", "num_workers").alias("device"),
                pl.lit("vidur").alias("framework"),
                C("fabric").alias("kernel"),
                pl.lit("bf16").alias("format"),
                bytes="size",
                ranks="num_workers",
                nodes=(C("num_workers") / C("devices_per_node")).ceil(),
                us=C("time_ms").cast(pl.Float64) * 1e3,
            ),
        )
