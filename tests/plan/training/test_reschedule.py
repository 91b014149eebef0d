"""Other schedules for the layouts that a search found: never slower than their own, within their memory."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from poise.catalogue.devices import device
from poise.cli import main
from poise.cost.training import Job, shape
from poise.cost.training.stages import stages_of
from poise.pipeline import make, time
from poise.plan.training.reschedule import TRIED, alternatives, rescheduled
from poise.plan.training.search import search
from poise.plan.training.space import Space
from poise.sim.step.layout import GRAIN, costs_of, timed

JOB = Job(shape(24, 4096, 32), device("A100"), 16, 2048, 64)
SPACE = Space(tensor=(2, 4), pipeline=(4,), zero=(1,), recompute=("none",))


def test_the_fastest_that_fits_takes_the_place_of_its_own() -> None:
    found = search(JOB, SPACE).best
    again = rescheduled(JOB, found)
    assert [each.seconds for each in again] == sorted(each.seconds for each in again)
    assert len({(each.layout.tensor, each.layout.micro_batch, each.layout.recompute) for each in again}) == len(again)
    assert all(each.seconds <= each.own_s and each.held <= each.room for each in again)
    assert any(each.schedule in TRIED and each.seconds < each.own_s for each in again)


def test_seconds_are_those_of_the_schedule_itself() -> None:
    plain = replace(SPACE, schedule=("one_f_one_b",), tensor=(4,), counted=False)
    again = rescheduled(JOB, search(JOB, plain).best)[0]
    stages, count = stages_of(JOB, again.layout), again.layout.microbatches(JOB)
    costs, own = costs_of(stages), timed(again.layout, count, stages)
    assert again.schedule == "poise" and len(stages.forward) == 4
    best = time(make("poise", 4, count, costs=costs, memory_limit=Fraction(again.room)), costs)
    assert again.own_s - again.seconds == pytest.approx(float(own.makespan - best.makespan) * GRAIN)


def test_no_pipeline_no_schedules() -> None:
    found = search(JOB, Space(pipeline=(1,))).best
    assert rescheduled(JOB, found) == [] and alternatives(JOB, found[0]) is None


def test_the_command_puts_that_layout_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "plan", "facebook/opt-13b", "--devices", "A100", "--gpus", "16", "--batch", "32", "--seq", "2048"]
    words += ["--pipeline", "4", "--tensor", "4", "--zero", "1", "--recompute", "none", "--reschedule"]
    assert main([*words, "--json", str(tmp_path / "told.json")]) == 0
    result = json.loads((tmp_path / "told.json").read_text())
    assert result["rescheduled"][0]["layout"] == result["best"][0]["layout"]
    assert "With the fastest schedule that fits" in capsys.readouterr().out
