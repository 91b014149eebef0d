"""`vllm_layer_profiles`: parts of a layer and whole attention steps as vLLM runs them, in µs.

`h100_v0_*` are of the source's older profiler, which timed PyTorch modules one by one: products and single kernels
stand for themselves, norms and rotations are of several kernels there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from poise.recordings.profiles.parts import kernel, moved, product, widths

C = pl.col
SOURCE = "vllm_layer_profiles"

OLDER = "llmservingsim"
"""The framework of the older profiler's rows."""


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
    yield from _older(folder)


def _older(folder: Path) -> Iterator[tuple[str, pl.DataFrame]]:
    """Rows of the older profiler: layers in ns, attention in ms."""
    path = folder / "h100_v0_layers.parquet"
    if path.is_file():
        table = pl.read_parquet(path).with_columns(C(pl.Categorical).cast(pl.String))
        us = (C("latency(ns)").cast(pl.Float64) / 1e3).alias("us")
        yield from parts(table.select("model", *_about(OLDER), us, layer="layer_name", tp="tp_size", tokens="input"))
    path = folder / "h100_v0_attention.parquet"
    if path.is_file():
        table = pl.read_parquet(path).with_columns(C(pl.Categorical).cast(pl.String))
        ms = pl.when("is_prefill").then(C("attn_prefill_ms")).otherwise(C("attn_decode_ms")).cast(pl.Float64)
        decodes = pl.when("is_prefill").then(0).otherwise(C("batch_size"))
        yield from attention(
            table.select(
                "model", *_about(OLDER), tp="num_tensor_parallel_workers", new="prefill_chunk_size",
                past="kv_cache_size", batch=decodes, context="kv_cache_size", us=ms * 1e3,
            )
        )  # fmt: skip


def _about(framework: str = "vllm") -> list[pl.Expr]:
    return [pl.lit(SOURCE).alias("source"), C("gpu").alias("device"), pl.lit(framework).alias("framework")]


def parts(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Rows (source, device, framework, model, layer, tp, tokens, us) as products, light kernels, prompts' attention,
    and others by name."""
    rows = rows.with_columns(C("tokens").cast(pl.Int64))  # bytes of many tokens pass 32 bits
    keys = ("model", "layer", "tp", "framework")
    for (model, layer, tp, framework), part in rows.group_by(keys, maintain_order=True):
        found, name, ranks = widths(str(model)), str(layer), int(str(tp))
        about = [C("source"), C("device"), C("framework"), pl.lit("bf16").alias("format"), C("us")]
        shape = None if found is None else product(name, found, ranks)
        size = None if found is None else moved(name, found, ranks)
        if shape is not None:
            n, k = shape
            yield "gemm", part.select(*about, pl.lit("").alias("kernel"), m="tokens", n=pl.lit(n), k=pl.lit(k))
        elif size is not None:
            light = pl.lit(kernel(name, framework == OLDER)).alias("kernel")
            yield "light", part.select(*about, light, bytes=C("tokens") * size)
        elif name == "attn":
            prompts = part.with_columns(new="tokens", past=pl.lit(0), batch=pl.lit(0), context=pl.lit(0))
            yield from attention(prompts)
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
        yield "prefill", shaped.filter(C("new") > 0, C("batch") == 0).with_columns(batch=pl.lit(1))
        yield "decode", shaped.filter(C("new") == 0, C("batch") > 0)
        yield "mixed", shaped.filter(C("new") > 0, C("batch") > 0)
