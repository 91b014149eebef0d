"""Steps that papers measured and that no figure was fitted to."""

from __future__ import annotations

import pytest

from poise.catalogue.devices import device
from poise.cost.training import Job, Layout, predict, shape

RUNS = [
    # layers, hidden, heads, devices, batch, stages, chunks, microbatch, all recomputed, selective + sequence parallel
    (48, 6144, 64, 8, 4, 1, 1, 4, 1.42, 1.10),
    (96, 12288, 96, 64, 64, 8, 3, 1, 18.13, 13.75),
    (105, 20480, 128, 280, 280, 35, 3, 1, 49.05, 37.83),
    (128, 25600, 160, 512, 512, 64, 1, 1, 94.42, 71.49),
]
"""Korthikanti et al. (arXiv 2205.05198), tables 3 and 5: seconds of a step on A100, tensor groups of eight."""


@pytest.mark.parametrize("run", RUNS, ids=["22B", "175B", "530B", "1T"])
def test_steps_of_korthikanti(run: tuple[float, ...]) -> None:
    layers, hidden, heads, devices, batch, pipeline, chunks, size = (int(each) for each in run[:8])
    job = Job(
        shape(layers, hidden, heads, vocab=51200), device("A100"), devices, 2048, batch, attention="fused", dropout=True
    )
    common = {
        "tensor": 8, "pipeline": pipeline, "chunks": chunks, "micro_batch": size, "zero": 0,
        "schedule": "interleaved" if chunks > 1 else "one_f_one_b",
    }  # fmt: skip
    full = predict(job, Layout(**common, recompute="full", sequence_parallel=False))  # type: ignore[arg-type]
    selective = predict(job, Layout(**common, recompute="selective"))  # type: ignore[arg-type]
    assert full.seconds == pytest.approx(run[8], rel=0.085)
    assert selective.seconds == pytest.approx(run[9], rel=0.085)
    assert selective.fits(job)
