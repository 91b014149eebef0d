"""Sources whose tables need more than their columns say: what their papers state of software and layout."""

from __future__ import annotations

import re

from poise.cost.training import Job, Layout, shape
from poise.validation.training.read import Row
from poise.validation.training.run import Conditions
from poise.validation.training.words import SilentError, device_of, whole

KNOWN = {"1F1B": "one_f_one_b", "1F1B-I": "interleaved", "ZB-1p": "zb_h1", "ZB-2p": "zb_h2"}
"""Schedules of the zero-bubble tables: ZB-1p and ZB-2p are found with the memory of ZB-H1 and ZB-H2."""


def mpt(row: Row) -> Conditions:
    """MPT by Composer's FSDP: flash attention, gradients and reduction in 16 bits under PURE, weights kept in 32."""
    layers, hidden, heads = (whole(row, name) for name in ("layers", "hidden", "heads"))
    model = shape(layers, hidden, heads, ffn=whole(row, "ffn"), vocab=whole(row, "vocab"), name=row["model"])
    nics = re.search(r"(\d+) ?Gbps", row["table"])
    job = Job(
        model, device_of(row), whole(row, "n_gpus"), whole(row, "seq"), whole(row, "global_batch"),
        precision="fp8" if "fp8" in row["precision"] else "bf16", nic_bw=float(nics[1]) * 1e9 / 64 if nics else 0.0,
        attention="flash2", fused="norms", gathered=True, early_stop=True, host="composer",
    )  # fmt: skip
    sharded = {"FSDP FULL_SHARD": 3, "FSDP SHARD_GRAD_OP": 3, "FSDP NO_SHARD": 0}.get(row["schedule"])
    if sharded is None:
        raise SilentError(f"how {row['schedule']!r} shards is not known")
    layout = Layout(
        data=whole(row, "dp"), micro_batch=whole(row, "micro_batch"), zero=sharded,
        reshard=row["schedule"] == "FSDP FULL_SHARD", recompute="full" if row["recompute"] == "full" else "none",
        gradient_bytes=2 if "mp_mode=PURE" in row["notes"] else 4,
    )  # fmt: skip
    return job, layout, "A", (), True


def zero_bubble(row: Row) -> Conditions:
    """Megatron-LM with zero-bubble schedules: the first and the last stage have a layer less."""
    layers, hidden, heads = (whole(row, name) for name in ("layers", "hidden", "heads"))
    if row["schedule"].startswith("ZB-2p all-reduce") or "profile" in row["schedule"]:
        raise SilentError("a variant of the same run")
    words = row["schedule"].split(" ")[0]
    pipeline = whole(row, "pp")
    model = shape(layers, hidden, heads, vocab=51200, name=row["model"])
    job = Job(
        model,
        device_of(row),
        whole(row, "n_gpus"),
        whole(row, "seq"),
        whole(row, "global_batch"),
        attention="fused",
        dropout=True,
    )
    inner = (layers + 2) // pipeline
    split = (inner - 1, *[inner] * (pipeline - 2), inner - 1)
    chunks = inner if words == "1F1B-I" else 1
    if chunks > 1:
        split = (0, *[1] * (pipeline * chunks - 2), 0)
    layout = Layout(
        pipeline=pipeline, data=whole(row, "dp"), micro_batch=whole(row, "micro_batch"), split=split, chunks=chunks,
        schedule=KNOWN[words], sequence_parallel=False, zero=1, overlap=False,
    )  # fmt: skip
    return job, layout, "B", ("vocabulary 51,200", "nothing recomputed"), not words.startswith("ZB")


def megatron(row: Row) -> Conditions:
    """Megatron-LM of 2021, and DeepSpeed's ZeRO-3 beside it: fused softmax, dropout, gradients summed by one rail."""
    layers, hidden, heads = (whole(row, name) for name in ("layers", "hidden", "heads"))
    model = shape(layers, hidden, heads, vocab=whole(row, "vocab"), name=row["model"])
    job = Job(
        model, device_of(row), whole(row, "n_gpus"), whole(row, "seq"), whole(row, "global_batch"), attention="fused",
        dropout=True, rails=1 if row["schedule"] == "ZeRO-3" else 0,
    )  # fmt: skip
    tensor, pipeline = whole(row, "tp"), whole(row, "pp")
    data = whole(row, "dp")
    layout = Layout(
        tensor=tensor, pipeline=pipeline, data=data, micro_batch=whole(row, "micro_batch"),
        chunks=1 if pipeline == 1 else whole(row, "vpp"), sequence_parallel=False, recompute="full",
        zero=3 if row["schedule"] == "ZeRO-3" else 0, gradient_bytes=2 if row["schedule"] == "ZeRO-3" else 4,
    )  # fmt: skip
    return job, layout, "A" if row["recompute"] else "B", () if row["recompute"] else ("all layers recomputed",), True
