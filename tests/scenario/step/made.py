"""The step file of the tests, and reading one."""

from __future__ import annotations

from pathlib import Path

from poise.scenario.step.read import StepQuestion, read

JOB = """\
kind: step
model: llama-3.1-8b
cluster: {device: H100, devices: 16, nic_gbit_s: 400, price: 2.0}
batch: 32
sequence: 4096
"""
"""A step without its layout."""


def question(name: str = "step.yaml", *sets: str) -> StepQuestion:
    """What the file of that name asks, with such options of --set."""
    return read(Path(name), sets)
