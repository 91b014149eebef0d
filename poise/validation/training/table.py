"""Published runs in one table: `fidelity_training/*.csv`, a row one metric of one configuration."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from poise.catalogue.devices import device
from poise.catalogue.models import model as named_model
from poise.core.errors import PoiseError
from poise.core.model import Model
from poise.core.spec import Device
from poise.cost.training import Job, Layout, shape
from poise.cost.training.flops import narayanan
from poise.validation.training.read import positive, runs_of
from poise.validation.training.run import Run

FOLDER = Path("fidelity_training")
Row = dict[str, str]
Conditions = tuple[Job, Layout, str, tuple[str, ...], bool]
Reader = Callable[[Row], Conditions]

DEVICES = {
    "h100_80gb": "H100-SXM-80GB", "a100_80gb": "A100-SXM-80GB", "DGX-H100": "H100-SXM-80GB",
    "DGX-B200": "B200-SXM-180GB", "DGX-GB200": "GB200", "A100-SXM-80GB": "A100-SXM-80GB",
    "A100-80GB": "A100-SXM-80GB",
}  # fmt: skip
"""Devices by how the column begins."""
MODELS = {
    "LLAMA3_70B": "llama-3-70b",
    "LLAMA3.1_405B": "llama-3.1-405b",
    "Qwen3_30B_a3B": "Qwen/Qwen3-30B-A3B",
    "Qwen3_235B_a22B": "Qwen/Qwen3-235B-A22B",
    "DeepSeekV3": "deepseek-ai/DeepSeek-V3",
    "GPT OSS 120B": "openai/gpt-oss-120b",
}
"""Public configurations behind names of the tables."""
KNOWN = {"1F1B": "one_f_one_b", "1F1B-I": "interleaved", "ZB-1p": "zb_h1", "ZB-2p": "zb_h2"}
"""Schedules of the zero-bubble tables: ZB-1p and ZB-2p are found with the memory of ZB-H1 and ZB-H2."""


class SilentError(Exception):
    """A condition that the source does not state."""


def read_tables(folder: Path) -> tuple[list[Run], list[str]]:
    """All rows of all tables below `folder`, without those that repeat another; and broken rows."""
    runs: list[Run] = []
    faults: list[str] = []
    for name, read in READERS.items():
        found, broken = runs_of(folder / FOLDER / f"{name}.csv", partial(_runs, name, read))
        runs += found
        faults += broken
    return runs, faults


def _runs(name: str, read: Reader, place: str, row: Row) -> list[Run]:
    metric = row["metric"]
    if metric not in METRICS or metric in AGAIN.get(name, ()):
        return []
    return [_run(name, place, row, read)]


def _run(name: str, place: str, row: Row, read: Reader) -> Run:
    kind = "peak_memory" if row["metric"] == "peak_memory" else "step_time"
    common = (name, place, row["schedule"] or name, row["hardware"], row["model"], f"{name} {row['hardware']}")
    try:
        job, layout, quality, assumed, synchronous = read(row)
        value = positive("value", row["value"]) * 1e9 if kind == "peak_memory" else METRICS[row["metric"]](row, job)
    except (SilentError, PoiseError, ValueError) as error:
        return Run(*common, kind, 0.0, why=str(error))  # type: ignore[arg-type]
    sweep = f"{row['table']} {row['model']} {row['n_gpus']} {row['seq']} {row['global_batch']} {row['precision']}"
    return Run(*common, kind, value, job, layout, sweep, quality, assumed, "", synchronous)  # type: ignore[arg-type]


def _tokens(row: Row, job: Job) -> float:
    rate = positive("value", row["value"])
    if row["unit"] == "samples/s/GPU":
        return job.batch / (rate * job.devices)
    if row["unit"] == "tokens/s/GPU":
        return job.tokens / (rate * job.devices)
    raise SilentError(f"throughput in {row['unit']!r} is not understood")


def _equation(row: Row, job: Job) -> float:
    """TFLOP/s by eq. (3) of Narayanan et al. back to seconds."""
    flops = narayanan(job.batch, job.sequence, job.model.layers, job.model.hidden, job.model.vocab)
    return flops / (positive("value", row["value"]) * 1e12 * job.devices)


METRICS: dict[str, Callable[[Row, Job], float]] = {
    "throughput": _tokens,
    "iteration_time": lambda row, job: positive("value", row["value"]),
    "TFLOPs_per_GPU": _equation,
    "peak_memory": lambda row, job: positive("value", row["value"]),
}
"""Metrics that are read, to seconds of a step; the others of each table follow from one of these."""
AGAIN = {"megascale": ("throughput",), "nanotron_bench": ("throughput",)}


def _whole(row: Row, name: str, default: int | None = None) -> int:
    text = row[name]
    if not re.fullmatch(r"\d+(\.0+)?", text):
        if default is not None:
            return default
        raise SilentError(f"{name} is not stated")
    return int(float(text))


def _device(row: Row) -> Device:
    for words, name in DEVICES.items():
        if row["hardware"].startswith(words):
            return device(name)
    raise SilentError(f"device {row['hardware']!r} is not known")


def _mpt(row: Row) -> Conditions:
    """MPT by Composer's FSDP: flash attention, gradients and reduction in 16 bits under PURE, weights kept in 32."""
    layers, hidden, heads = (_whole(row, name) for name in ("layers", "hidden", "heads"))
    model = shape(layers, hidden, heads, ffn=_whole(row, "ffn"), vocab=_whole(row, "vocab"), name=row["model"])
    nics = re.search(r"(\d+) ?Gbps", row["table"])
    job = Job(
        model, _device(row), _whole(row, "n_gpus"), _whole(row, "seq"), _whole(row, "global_batch"),
        precision="fp8" if "fp8" in row["precision"] else "bf16", nic_bw=float(nics[1]) * 1e9 / 64 if nics else 0.0,
        attention="flash2", fused="norms", gathered=True, early_stop=True,
    )  # fmt: skip
    sharded = {"FSDP FULL_SHARD": 3, "FSDP SHARD_GRAD_OP": 3, "FSDP NO_SHARD": 0}.get(row["schedule"])
    if sharded is None:
        raise SilentError(f"how {row['schedule']!r} shards is not known")
    layout = Layout(
        data=_whole(row, "dp"), micro_batch=_whole(row, "micro_batch"), zero=sharded,
        reshard=row["schedule"] == "FSDP FULL_SHARD", recompute="full" if row["recompute"] == "full" else "none",
        gradient_bytes=2 if "mp_mode=PURE" in row["notes"] else 4,
    )  # fmt: skip
    return job, layout, "A", (), True


def _zero_bubble(row: Row) -> Conditions:
    """Megatron-LM with zero-bubble schedules: the first and the last stage have a layer less."""
    layers, hidden, heads = (_whole(row, name) for name in ("layers", "hidden", "heads"))
    if row["schedule"].startswith("ZB-2p all-reduce") or "profile" in row["schedule"]:
        raise SilentError("a variant of the same run")
    words = row["schedule"].split(" ")[0]
    pipeline = _whole(row, "pp")
    model = shape(layers, hidden, heads, vocab=51200, name=row["model"])
    job = Job(
        model,
        _device(row),
        _whole(row, "n_gpus"),
        _whole(row, "seq"),
        _whole(row, "global_batch"),
        attention="fused",
        dropout=True,
    )
    inner = (layers + 2) // pipeline
    split = (inner - 1, *[inner] * (pipeline - 2), inner - 1)
    chunks = inner if words == "1F1B-I" else 1
    if chunks > 1:
        split = (0, *[1] * (pipeline * chunks - 2), 0)
    layout = Layout(
        pipeline=pipeline, data=_whole(row, "dp"), micro_batch=_whole(row, "micro_batch"), split=split, chunks=chunks,
        schedule=KNOWN[words], sequence_parallel=False, zero=1, overlap=False,
    )  # fmt: skip
    return job, layout, "B", ("vocabulary 51,200", "nothing recomputed"), not words.startswith("ZB")


def _megatron(row: Row) -> Conditions:
    layers, hidden, heads = (_whole(row, name) for name in ("layers", "hidden", "heads"))
    model = shape(layers, hidden, heads, vocab=_whole(row, "vocab"), name=row["model"])
    job = Job(
        model, _device(row), _whole(row, "n_gpus"), _whole(row, "seq"), _whole(row, "global_batch"), attention="fused",
        dropout=True, rails=1 if row["schedule"] == "ZeRO-3" else 0,
    )  # fmt: skip
    tensor, pipeline = _whole(row, "tp"), _whole(row, "pp")
    data = _whole(row, "dp")
    layout = Layout(
        tensor=tensor, pipeline=pipeline, data=data, micro_batch=_whole(row, "micro_batch"),
        chunks=1 if pipeline == 1 else _whole(row, "vpp"), sequence_parallel=False, recompute="full",
        zero=3 if row["schedule"] == "ZeRO-3" else 0, gradient_bytes=2 if row["schedule"] == "ZeRO-3" else 4,
    )  # fmt: skip
    return job, layout, "A" if row["recompute"] else "B", () if row["recompute"] else ("all layers recomputed",), True


def _bridge(row: Row) -> Conditions:
    """Megatron-Bridge: the public model, what is recomputed not stated and taken as nothing."""
    if "phase=Pre" not in row["notes"]:
        raise SilentError("fine-tuning: its sequences are packed and its trained weights not stated")
    if not row["precision"]:
        raise SilentError("the precision is not stated")
    if "FP4" in row["precision"]:
        raise SilentError("training in 4 bits is not modelled")
    name = row["model"].split(" (")[0]
    if name not in MODELS:
        raise SilentError(f"the shape of {name} is not in the catalogue")
    model: Model = named_model(MODELS[name])
    job = Job(
        model, _device(row), _whole(row, "n_gpus"), _whole(row, "seq"), _whole(row, "global_batch"),
        precision="bf16" if row["precision"].startswith("BF16") else "fp8",
    )  # fmt: skip
    pipeline, chunks = _whole(row, "pp"), _whole(row, "vpp", 1)
    fsdp = row["schedule"] == "FSDP"
    layout = Layout(
        tensor=_whole(row, "tp"), pipeline=pipeline, chunks=chunks if pipeline > 1 else 1, context=_whole(row, "cp", 1),
        data=job.devices // (_whole(row, "tp") * pipeline * _whole(row, "cp", 1)), expert=_whole(row, "ep", 1),
        micro_batch=_whole(row, "micro_batch"), zero=3 if fsdp else 1, gradient_bytes=2 if fsdp else 4,
        schedule="interleaved" if chunks > 1 and pipeline > 1 else "one_f_one_b",
    )  # fmt: skip
    return job, layout, "B", ("nothing recomputed", "even loads of experts"), True


def _unstated(row: Row) -> Conditions:
    for name in ("hardware", "micro_batch", "vpp", "layers", "vocab"):
        if not row[name]:
            raise SilentError(f"{name} is not stated")
    raise SilentError("its conditions are not complete")


READERS: dict[str, Reader] = {
    "llm_foundry_mpt": _mpt,
    "zero_bubble": _zero_bubble,
    "megatron2021": _megatron,
    "megatron_bridge": _bridge,
    "megascale": _unstated,
    "nanotron_bench": _unstated,
}
