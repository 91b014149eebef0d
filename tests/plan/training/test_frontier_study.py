"""Steps on Frontier's dies, and layouts of LLaMA's published tables: as described field by field."""

from __future__ import annotations

import pytest

from poise.cost.training import Job, Layout, predict, shape
from poise.plan.training.frontier_study import DIE, SHAPES, TOKENS, partitioned, step
from poise.plan.training.rules import in_table


@pytest.mark.parametrize(("billions", "weights"), [(22, 22e9), (175, 175e9), (1000, 1000e9)])
def test_shapes_have_the_weights_of_their_names(billions: int, weights: float) -> None:
    layers, hidden, _ = SHAPES[billions]
    assert 12 * layers * hidden**2 == pytest.approx(weights, rel=0.02)


def test_a_step_is_the_prediction_of_its_layout() -> None:
    job = Job(shape(*SHAPES[22]), DIE, 64, TOKENS, 256)
    layout = Layout(tensor=2, pipeline=4, data=8, recompute="full", gradient_bytes=2)
    assert step(22, 2, 4, 8, 256) == predict(job, layout)


def test_three_levels_are_faster_than_zero_3_on_dies_and_hold_more() -> None:
    three, plain = partitioned(64, "three levels"), partitioned(64, "zero 3")
    assert three.seconds < plain.seconds and three.memory > plain.memory


def test_the_rules_take_no_recomputation_and_the_fastest_is_no_slower() -> None:
    rule, best = in_table(13, 8192, 128, "any", rule=True), in_table(13, 8192, 128)
    assert (rule.layout.recompute, rule.layout.micro_batch) == ("none", 1)
    assert best.seconds <= rule.seconds
    assert in_table(13, 8192, 128, "full").layout.recompute == "full"
