"""Steps of the GPT models that were trained on Frontier, by layout (Dash et al., arXiv 2312.12705)."""

from __future__ import annotations

from dataclasses import replace

from poise.catalogue.devices import device
from poise.cost.training import Job, Layout, Prediction, predict, shape

DIE = replace(
    device("MI250X"), bf16_flops=191.5e12, memory_bytes=64 << 30, memory_bw=1.6e12, scaleup_bw=50e9, scaleout_bw=12.5e9,
    tdp_w=280,
)  # fmt: skip
"""One of the two dies of an MI250X, which software sees as a device: half of each figure, 50 GB/s to the others of its
server, and an eighth of a server's four NICs of 200 Gbit/s."""
SHAPES = {22: (48, 6144, 48), 175: (96, 12288, 96), 1000: (128, 25600, 160)}
"""Layers, width and heads by billions of weights."""
TOKENS = 2048


def step(billions: int, tensor: int, pipeline: int, data: int, batch: int) -> Prediction:
    """A step with microbatches of one sequence, layers recomputed and states sharded (ZeRO 1)."""
    layers, hidden, heads = SHAPES[billions]
    job = Job(shape(layers, hidden, heads), DIE, tensor * pipeline * data, TOKENS, batch)
    laid = Layout(tensor=tensor, pipeline=pipeline, data=data, recompute="full", gradient_bytes=2)
    return predict(job, laid)


def partitioned(dies: int, way: str) -> Prediction:
    """A step of GPT-NeoX-20B's shape under `zero 3`, `zero++` or `three levels` (Xu et al., arXiv 2501.04266)."""
    from poise.plan.training.levels import stepped

    job = Job(shape(44, 6144, 64, vocab=50432, tied=False), DIE, dies, TOKENS, dies)
    return stepped(job, Layout(data=dies, zero=3, recompute="full", gradient_bytes=2), way, pair_bw=200e9)
