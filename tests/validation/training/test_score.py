"""Scores of training runs from answers made by hand."""

from __future__ import annotations

import pytest

from poise.cost.training import Layout
from poise.validation.training.answer import Answer
from poise.validation.training.run import Metric, Run
from poise.validation.training.score import REGRET, regret, training_scores


def _answer(
    metric: Metric, value: float, predicted: float | None, data: int = 1, seconds: float = 0.0, safe: bool = True
) -> Answer:
    run = Run(
        "made", f"line {data}", "engine", "A100", "GPT", "c", metric, value, layout=Layout(data=data), sweep="one"
    )
    return Answer(run, predicted, seconds=seconds, safe=safe)


def test_regret_is_of_the_layout_predicted_fastest() -> None:
    sweep = [_answer("step_time", 2.0, 3.0, 1), _answer("step_time", 2.2, 2.9, 2), _answer("step_time", 4.0, 9.0, 4)]
    assert regret(sweep) == pytest.approx(0.1)


def test_a_layout_predicted_not_to_fit_is_not_chosen() -> None:
    sweep = [
        _answer("step_time", 2.0, 3.0, 1), _answer("step_time", 2.2, 2.9, 2), _answer("fits", 1.0, 1.0, 1, 3.0),
        _answer("fits", 1.0, 0.0, 2, 2.9, safe=False),
    ]  # fmt: skip
    assert regret(sweep) == 0


def test_choosing_what_ran_out_of_memory_costs_a_step() -> None:
    sweep = [
        _answer("step_time", 2.0, 3.0, 1), _answer("step_time", 2.2, 2.9, 2), _answer("fits", 0.0, 1.0, 4, 1.0),
    ]  # fmt: skip
    assert regret(sweep) == 1
    assert regret(sweep[:1]) is None


def test_scores_count_rows_without_an_answer_and_wrong_outcomes() -> None:
    made = [_answer("step_time", 2.0, 3.0), _answer("step_time", 2.0, None), _answer("fits", 1.0, 0.0)]
    scored = {(each.source, each.metric, each.quality): each for each in training_scores(made)}
    steps = scored["made", "step_time", "AB"]
    assert (steps.n, steps.answered, steps.bias, steps.median_ape) == (2, 1, 0.5, 0.5)
    assert scored["all", "fits", "AB"].median_ape == 1
    assert not any(metric == REGRET for _, metric, _ in scored)
