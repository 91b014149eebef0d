"""Closed forms of a step beside its schedule, run operation by operation."""

from __future__ import annotations

import pytest

from poise.catalogue.devices import device
from poise.cost.training import Job, Layout, predict, shape
from poise.cost.training.columns import columns
from poise.cost.training.figures import figures
from poise.cost.training.stages import Stages, stages_of
from poise.sim.step.layout import GRAIN, simulated, timed

JOB = Job(shape(30, 4096, 32, vocab=128), device("H100"), 64, 2048, 512)


@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 2), (4, 8), (8, 8), (8, 32), (16, 64)])
def test_1f1b_of_even_stages_is_its_closed_form(ranks: int, microbatches: int) -> None:
    stages = Stages((3.0,) * ranks, (4.0,) * ranks, (2.0,) * ranks, 0.0, ranks)
    timing = timed(Layout(pipeline=ranks), microbatches, stages)
    assert timing.makespan * GRAIN == (microbatches + ranks - 1) * 9


@pytest.mark.parametrize(("ranks", "chunks", "microbatches"), [(2, 2, 4), (4, 2, 8), (4, 3, 16), (8, 4, 32)])
def test_interleaved_chunks_divide_the_bubble(ranks: int, chunks: int, microbatches: int) -> None:
    count = ranks * chunks
    stages = Stages((3.0,) * count, (4.0,) * count, (2.0,) * count, 0.0, ranks)
    exact = microbatches * chunks * 9 + (ranks - 1) * 9
    layout = Layout(pipeline=ranks, chunks=chunks, schedule="interleaved")
    assert timed(layout, microbatches, stages).makespan * GRAIN == exact


@pytest.mark.parametrize("schedule", ["one_f_one_b", "zb_h1", "zb_h2"])
@pytest.mark.parametrize(("pipeline", "tensor"), [(2, 4), (4, 2), (8, 8)])
def test_predictions_are_close_to_their_schedules(schedule: str, pipeline: int, tensor: int) -> None:
    layout = Layout(pipeline=pipeline, tensor=tensor, data=64 // (pipeline * tensor), schedule=schedule)
    found = predict(JOB, layout)
    assert simulated(JOB, found).seconds == pytest.approx(found.seconds, rel=0.05)


def test_stages_hold_all_layers_and_the_head() -> None:
    layout = Layout(pipeline=4, tensor=2, data=8, split=(7, 8, 8, 7))
    stages = stages_of(JOB, layout)
    fixed = figures().chunk_s
    assert (stages.forward[1] - fixed) / (stages.forward[0] - fixed) == pytest.approx(8 / 7)
    assert len(stages.forward) == 4
    assert columns(JOB, [layout]).most[0] == 8
