"""`vllm_layer_profiles`: parts of a layer and whole attention steps as vLLM runs them, in µs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from poise.truth.profiles.parts import LIGHT, moved, product, widths

C = pl.col
SOURCE = "vllm_layer_profiles"


def read(folder: Path) -> Iterator[tuple[str, pl.DataFrame]]:
    """(kind, rows) of every table that is there."""
    for name, count in (("dense", "tokens"), ("per_sequence", "sequences")):
        if (folder / f"{name}.parquet").is_file():
            table = pl.read_parquet(folder / f"{name}.parquet").with_columns(C(pl.Categorical).cast(pl.String))
            yield from parts(
                table.select("model", "layer", "tp", *_about(), tokens=count, us=C("time_us").cast(pl.Float64))
            )
    if (folder / "attention.parquet").is_file():
        table = pl.read_parquet(folder / "attention.parquet").with_columns(C(pl.Categorical).cast(pl.String))
        yield from attention(
            table.select(
                "model", "tp", *_about(), new="prefill_chunk", past="kv_prefill", batch="n_decode",
                context="kv_decode", us=C("time_us").cast(pl.Float64),
            )
        )  # fmt: skip


def _about() -> list[pl.Expr]:
    return [pl.lit(SOURCE).alias("source"), C("gpu").alias("device"), pl.lit("vllm").alias("framework")]


def parts(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Rows (source, device, framework, model, layer, tp, tokens, us) as products, light kernels, and others by name."""
    for (model, layer, tp), part in rows.group_by("model", "layer", "tp", maintain_order=True):
        found = widths(str(model))
        about = [C("source"), C("device"), C("framework"), pl.lit("bf16").alias("format"), C("us")]
        shape = None if found is None else product(str(layer), found, int(str(tp)))
        size = None if found is None else moved(str(layer), found, int(str(tp)))
        if shape is not None:
            n, k = shape
            yield "gemm", part.select(*about, pl.lit("").alias("kernel"), m="tokens", n=pl.lit(n), k=pl.lit(k))
        elif size is not None:
            yield "light", part.select(*about, pl.lit(LIGHT[str(layer)]).alias("kernel"), bytes=C("tokens") * size)
        else:
            yield f"layer {layer}", part


def attention(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Rows of whole attention steps: prefill alone, decodes alone, or both."""
    for (model, tp), part in rows.group_by("model", "tp", maintain_order=True):
        found = widths(str(model))
        if found is None:
            yield "attention", part
            continue
        ranks = int(str(tp))
        shaped = part.select(
            "source", "device", "framework", "new", "past", "batch", "context", "us",
            pl.lit("").alias("kernel"), pl.lit("bf16").alias("format"), pl.lit(found.heads // ranks).alias("heads"),
            pl.lit(max(found.kv_heads // ranks, 1)).alias("kv_heads"), pl.lit(found.width).alias("width"),
            pl.lit(0).alias("window"),
        )  # fmt: skip
        yield "prefill", shaped.filter(C("batch") == 0).with_columns(batch=pl.lit(1))
        yield "decode", shaped.filter(C("new") == 0, C("batch") > 0)
        yield "mixed", shaped.filter(C("new") > 0, C("batch") > 0)
