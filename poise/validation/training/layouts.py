"""Llama layouts on A100 (Hagemann et al., arXiv 2311.05610; CC BY-NC-SA 4.0: validated against, nothing fitted)."""

from __future__ import annotations

import re
from pathlib import Path

from poise.catalogue.devices import device
from poise.cost.training import Job, Layout, shape
from poise.cost.training.job import Attention
from poise.validation.training.read import positive, runs_of
from poise.validation.training.run import Run

SOURCE = "llama_layouts_a100"
FILE = Path("training_iteration_times") / "llama_layouts_a100.csv.gz"
SHAPES = {"13B": (40, 5120, 40, 13824), "30B": (60, 6656, 52, 17920), "65B": (80, 8192, 64, 22016)}
"""Layers, hidden, heads and feed-forward width of LLaMA (arXiv 2302.13971, table 2)."""
VOCAB = 128_000
"""With the batches below and 6N + 12·l·h·s FLOP a token, these give the runs' own MFU column (within 0.2 %)."""
BATCH = {2048: 2048, 8192: 512}
ASSUMED = ("batch and vocabulary by the runs' own MFU", "ZeRO 1", "gradients in 16 bits", "gathered logits")
"""Not stated in the table. That gradients are all-reduced in 32 bits after the backward, and that a gate is a product
of its own, is read in the software (Aleph-Alpha/scaling@01b9d21, core/optimizer/allreduce.py and core/nn/mlp.py)."""


def read_layouts(folder: Path) -> tuple[list[Run], list[str]]:
    """Steps of runs that ran, and of all but failures of other kinds whether they fitted; and rows that are broken."""
    return runs_of(folder / FILE, _read)


def _read(place: str, row: dict[str, str]) -> list[Run]:
    text = row["Average Step Time"]
    if text == "OOM Error":
        return _runs(place, row, None)
    if not re.fullmatch(r"[0-9.]+", text):  # other errors, kernels that were not there
        return []
    return _runs(place, row, positive("Average Step Time", text))


def _attention(kernel: str) -> Attention:
    if "flash" in kernel:
        return "flash1" if "v1" in kernel else "flash2"
    return "fused" if kernel == "fused" else "eager"


def _runs(place: str, row: dict[str, str], seconds: float | None) -> list[Run]:
    group = row["run_group"]
    named = re.search(r"(13|30|65)B", group)
    if named is None:
        raise ValueError(f"run_group is {group!r}; a size of 13B, 30B or 65B is needed")
    name = named[0]
    sequence = 8192 if "8k" in group else 2048
    layers, hidden, heads, ffn = SHAPES[name]
    kernel = row["kernel"]
    devices, tensor, pipeline = (int(row[key]) for key in ("World Size", "model_parallel_size", "pipe_parallel_size"))
    job = Job(
        shape(layers, hidden, heads, ffn=ffn, vocab=VOCAB, gated=True, tied=False, name=f"LLaMA {name}"),
        device("A100-SXM-80GB"), devices, sequence, BATCH[sequence],
        attention=_attention(kernel), fused="norms" if "RMS" in kernel else "none", gathered=True, summed_bytes=4,
        gates_apart=True,
    )  # fmt: skip
    layout = Layout(
        tensor=tensor, pipeline=pipeline, data=devices // (tensor * pipeline), micro_batch=int(row["micro_batch_size"]),
        sequence_parallel=row["sequence_parallel"] == "True", zero=1, overlap=False, gradient_bytes=2,
        recompute="none" if row["activation_checkpointing_type"] == "disabled" else "full",
    )  # fmt: skip
    common = (SOURCE, place, f"AA-Scaling, {kernel}", "A100-SXM-80GB", job.model.name, f"{SOURCE} {devices}")
    fits = Run(*common, "fits", float(seconds is not None), job, layout, group, "B", ASSUMED)
    return [fits] if seconds is None else [Run(*common, "step_time", seconds, job, layout, group, "B", ASSUMED), fits]
