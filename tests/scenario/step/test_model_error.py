"""The model's error of a training step: intervals of the calibration, and the confidence that memory fits."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from pathlib import Path

import pytest

from poise.catalogue import device, model
from poise.cost.training import Job, Layout, Prediction, predict
from poise.experiment.compare import compare
from poise.intervals.interval import LEVELS, Interval
from poise.pipeline.costs import Costs
from poise.pipeline.saved import costs_text
from poise.scenario.step.model_error import StepError, factors, step_error
from poise.scenario.step.show import as_dict
from tests.scenario.step.made import JOB, question

TASK = Job(model("llama-3.1-8b"), device("H100"), devices=16, sequence=4096, batch=32)
EVEN = Interval(tuple(level - 0.5 for level in LEVELS))
"""Measured over predicted is between exp(-0.5) and exp(0.5), its logarithm anywhere alike."""


def of_memory(share: float) -> tuple[Prediction, Job]:
    """A step on a device whose room is `share` of what its peak needs, both without the framework's memory."""
    found = predict(TASK, Layout(tensor=4, data=4))
    outside = found.classes["framework"]
    size = outside + share * (found.memory - outside)
    return found, replace(TASK, device=replace(TASK.device, memory_bytes=size))


def test_memory_fits_with_the_share_of_measured_peaks_that_are_smaller() -> None:
    for level in (0.25, 0.5, 0.75):
        assert StepError(EVEN, EVEN).fits(*of_memory(exp(level - 0.5))) == pytest.approx(level, abs=1e-6)
    room = [StepError(EVEN, EVEN).fits(*of_memory(share)) for share in (0.5, 0.8, 1.0, 1.3, 2.0)]
    assert room == sorted(room) and room[0] < 0.05 and room[-1] > 0.95


def test_factors_of_several_layouts_enclose_those_of_each() -> None:
    pairs = [(TASK, Layout(tensor=4, data=4)), (TASK, Layout(tensor=4, pipeline=2, data=2))]
    low, high = factors(pairs)
    for pair in pairs:
        own = step_error(*pair).step.bounds(1.0)
        assert low <= own.low < own.high <= high
    assert factors(pairs, 0.9).high > high


def test_a_step_file_states_it_but_not_for_recorded_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("step.yaml").write_text(JOB + "layout: {tensor: 4, pipeline: 2}\n")
    Path("costs.json").write_text(costs_text(Costs.of([9, 12], [8, 10], [7, 9], "0.3"), unit="ms"))
    ask = question()
    found = as_dict(ask, compare(ask.experiment))["model_error"]
    own = step_error(TASK, Layout(tensor=4, pipeline=2, data=2)).step.bounds(1.0)
    assert found == {"confidence": 0.8, "factors": {"step_time": own._asdict()}}
    ask = question("step.yaml", "costs=costs.json")
    assert as_dict(ask, compare(ask.experiment))["model_error"]["why"]
