"""A step as a point of a table is the step that a step file simulates."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.scenario.step.point import step
from poise.scenario.step.read import read
from poise.scenario.step.world import Jitter, run

FILE = """
kind: step
model: llama-3.1-8b
cluster: {device: H100, devices: 16, nic_gbit_s: 400}
batch: 32
sequence: 4096
layout: {tensor: 2, pipeline: 4, recompute: full}
schedule: zb_h1
jitter: {rank: 0.05, microbatch: 0.1}
"""


def test_it_is_that_of_a_step_file(tmp_path: Path) -> None:
    path = tmp_path / "step.yaml"
    path.write_text(FILE, encoding="utf-8")
    (case,) = read(path).experiment.cases
    layout = {"tensor": 2, "pipeline": 4, "recompute": "full"}
    jitter = Jitter(0.05, 0.1)
    what, on = model("llama-3.1-8b"), device("H100")
    found = step(what, on, 16, 32, 4096, layout, schedule="zb_h1", nic_bw=50e9, jitter=jitter, draw=3)
    figures = run(case, 3)
    assert (found.seconds, found.mfu) == (figures["step_s"], figures["mfu"])
    assert found.memory == figures["memory_gib"] * 2**30


def test_a_layout_that_cannot_be_is_refused() -> None:
    with pytest.raises(ScenarioError, match="does not divide the 16 devices"):
        step(model("llama-3.1-8b"), device("H100"), 16, 32, 4096, {"tensor": 3})
