"""vTrain's runs of Megatron-DeepSpeed on A100 (VIA-Research/vTrain, MIT): GPT under 3D parallelism."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from poise.catalogue.devices import device
from poise.cost.training import Job, Layout, shape
from poise.validation.training.read import positive, runs_of
from poise.validation.training.run import Run

FILES = {
    "vtrain_single_node": Path("training_iteration_times") / "vtrain_single_node.csv.gz",
    "vtrain_multi_node": Path("training_iteration_times") / "vtrain_multi_node.csv.gz",
}
VOCAB = 50257
"""Of the configurations that vTrain ships (`src/config.py`)."""
NIC = 800e9 / 8 / 8
"""Bytes/s of one of eight devices: a server has 800 Gbit/s (`inter_node_bandwidth`)."""


def read_vtrain(folder: Path) -> tuple[list[Run], list[str]]:
    """All rows of both files, those that are there, and a line for each row that cannot be read."""
    runs: list[Run] = []
    faults: list[str] = []
    for source, file in FILES.items():
        found, broken = runs_of(folder / file, partial(_runs, source))
        runs += found
        faults += broken
    return runs, faults


def _runs(source: str, place: str, row: dict[str, str]) -> list[Run]:
    return [_run(source, place, {name: positive(name, value) for name, value in row.items()})]


def _run(source: str, place: str, row: dict[str, float]) -> Run:
    """Everything is recomputed by the layer (`use_checkpoint`), stages are 1F1B's, gradients summed at the end.

    The single-node times are affine in microbatches and in layers to a part in a thousand, over every degree: they are
    put together of kernels profiled alone, with the host's launching and a vocabulary that one rank does not pad.
    """
    layers, hidden = int(row["layers"]), int(row["hidden_size"])
    tensor, data, pipeline = (int(row[f"{name}_parallelism"]) for name in ("tensor", "data", "pipeline"))
    name = f"GPT {layers}x{hidden}"
    alone = "single" in source
    padded = VOCAB if alone and tensor == 1 else -(-VOCAB // (128 * tensor)) * 128 * tensor
    model = shape(layers, hidden, int(row["attention_heads"]), vocab=padded, name=name)
    job = Job(
        model, device("A100-SXM-80GB"), int(row["gpus"]), int(row["sequence_length"]), int(row["global_batch"]),
        nic_bw=NIC, attention="fused", dropout=True, host="profiled" if alone else "",
    )  # fmt: skip
    layout = Layout(
        tensor=tensor, pipeline=pipeline, data=data, micro_batch=int(row["micro_batch"]), sequence_parallel=False,
        zero=0, recompute="full", gradient_bytes=2, overlap=False,
    )  # fmt: skip
    return Run(
        source, place, "Megatron-DeepSpeed", "A100-SXM-80GB", name, source, "step_time",
        row["iteration_time_ms"] / 1e3, job, layout, f"{name} {job.devices} {job.sequence} {job.batch}",
    )  # fmt: skip
