"""`fidelity/op_profiles.parquet`: single operations from several sources in one table, in µs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from poise.recordings.profiles.formats import bits, form, matrices, skew
from poise.recordings.profiles.layers import OLDER, attention, parts
from poise.recordings.profiles.vidur import BRIDGED

C = pl.col
SOURCE = "fidelity/op_profiles"
COLLECTIVES = {
    "coll_all_reduce": "all_reduce",
    "coll_custom_all_reduce": "all_reduce",
    "coll_all_gather": "all_gather",
    "coll_reduce_scatter": "reduce_scatter",
    "coll_alltoall": "all_to_all",
    "coll_send_recv": "send_recv",
}
A2A = {
    "moe_a2a_dispatch_low_latency": "dispatch",
    "moe_a2a_combine_low_latency": "combine",
    "moe_a2a_dispatch_normal": "dispatch_normal",
    "moe_a2a_combine_normal": "combine_normal",
}
ABSORBED = {"mla_gen_pre": (512, 128), "mla_gen_post": (128, 512)}
"""Products of latent decoding with one (n × k) matrix a head: queries into the latent space, and values out of it."""


def read(folder: Path) -> Iterator[tuple[str, pl.DataFrame]]:
    """(kind, rows) by operation; of operations without a kind, (name, rows) as they are."""
    path = folder / "op_profiles.parquet"
    if not path.is_file():
        return
    table = pl.read_parquet(path).with_columns(
        C(pl.Categorical).cast(pl.String),
        C("gpu").alias("device"),
        C("latency_us").alias("us"),
        C("kernel").fill_null(""),
    )
    framework = (
        pl.when(C("framework").str.starts_with("vLLM")).then(pl.lit("vllm"))
        .when(C("framework").str.starts_with("vidur")).then(pl.lit("vidur"))
        .when(C("framework").str.starts_with("LLMServingSim")).then(pl.lit(OLDER))
        .otherwise(C("framework").str.to_lowercase())
    )  # fmt: skip
    table = table.with_columns(framework.alias("framework"), pl.lit(SOURCE).alias("source"))
    for key, rows in table.group_by("op", maintain_order=True):
        yield from _operation(str(key[0]), rows)


def _operation(op: str, rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    if op == "gemm":
        yield "gemm", rows.with_columns(form("dtype"))
    elif op in ("attention_prefill", "attention_decode"):
        yield from _attention(op, rows)
    elif op == "attention_mixed":
        yield from attention(rows.with_columns(new="seq_q", past="kv_len", context="kv_len_decode"))
    elif op == "mla_prefill":
        yield (
            "mla_prefill",
            rows.with_columns(bits("dtype", "kv_dtype"), new="seq_q", past=C("kv_len") - C("seq_q"), heads="num_heads"),
        )
    elif op == "mla_decode":
        yield "mla_decode", rows.with_columns(bits("dtype", "kv_dtype"), context="kv_len", heads="num_heads")
    elif op == "moe_ffn":
        yield "moe", rows.with_columns(form("dtype"), matrices(), experts="num_experts", skew=skew("distribution"))
    elif op in COLLECTIVES:
        yield COLLECTIVES[op], _collective(rows)
    elif op in A2A:
        mode = pl.coalesce(C("distribution").str.replace("comm_sms=", "deepep sms "), pl.lit("deepep ll"))
        yield A2A[op], rows.with_columns(
            mode.alias("kernel"), pl.lit("bf16").alias("format"), experts="num_experts",
            ranks=8 * C("num_nodes"), nodes="num_nodes",
        )  # fmt: skip
    elif op in ABSORBED:
        n, k = ABSORBED[op]
        yield "gemm", rows.with_columns(form("dtype"), m="tokens", n=n * C("num_heads"), k=pl.lit(k))
    elif op.startswith("layer_"):
        yield from parts(
            rows.with_columns(layer=pl.lit(op.removeprefix("layer_")), tokens=pl.coalesce("tokens", "batch"))
        )
    else:
        yield op, rows


def _attention(op: str, rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Rows that state their heads; those that only name a model go by its widths."""
    kind = op.removeprefix("attention_")
    stated = rows.filter(C("head_dim").is_not_null()).with_columns(
        bits("dtype", "kv_dtype"),
        heads="num_heads",
        kv_heads="num_kv_heads",
        width="head_dim",
        window=C("window").fill_null(0),
    )
    yield kind, stated.with_columns(new="seq_q", past=C("kv_len") - C("seq_q"), context="kv_len")
    named = rows.filter(C("head_dim").is_null())
    if named.is_empty():
        return
    if kind == "prefill":
        named = named.with_columns(new="seq_q", past=C("kv_len") - C("seq_q"), batch=pl.lit(0), context=pl.lit(0))
    else:
        named = named.with_columns(new=pl.lit(0), past=pl.lit(0), context="kv_len")
    yield from attention(named)


def _collective(rows: pl.DataFrame) -> pl.DataFrame:
    size = C("message_elems") * pl.when(C("dtype") == "int8").then(1).otherwise(2)
    kernel = pl.when(C("framework") == "nccl").then(C("kernel") + " " + C("dtype")).otherwise(C("kernel"))
    where = pl.when(C("framework") == "vidur").then(C("distribution")).otherwise(kernel)
    rows = rows.with_columns(where.alias("kernel"))
    bridged = C("kernel").is_in(list(BRIDGED)) & (C("num_gpus") > 2)
    return rows.with_columns(
        pl.when(bridged).then(C("kernel").replace(BRIDGED)).otherwise(C("device")).alias("device"),
        pl.lit("bf16").alias("format"),
        bytes=size,
        ranks="num_gpus",
        nodes=C("num_nodes").fill_null(1),
    )
