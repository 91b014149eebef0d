"""Losses at the end of a budget: quadratics against closed forms, logistic regression against its optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.runtime.learning_rates import Constant, Cosine, Linear, Plan, Uba, refined
from poise.runtime.learning_rates import logistic as trials
from poise.runtime.learning_rates.quadratic import PEAKS, budget, loss


@given(st.integers(1, 40), st.floats(0, 1))
def test_one_curvature_has_the_closed_form_of_a_geometric_sum(steps: int, noise: float) -> None:
    ends = []
    for peak in PEAKS:
        kept = (1 - peak) ** 2
        added = peak**2 * noise**2
        ends.append(kept**steps + added * (steps if kept == 1 else (1 - kept**steps) / (1 - kept)))
    assert loss(Constant(), 1.0, steps, noise) == pytest.approx(min(ends))


@given(st.floats(1, 1000), st.integers(1, 60))
def test_phi_of_two_leaves_what_the_cosine_leaves(condition: float, steps: int) -> None:
    assert loss(Uba(2.0), condition, steps) == pytest.approx(loss(Cosine(), condition, steps))


@given(st.floats(1, 1000), st.integers(4, 40))
def test_the_chosen_phi_is_no_better_than_the_best(condition: float, steps: int) -> None:
    found = budget(condition, steps)
    assert loss(Uba(found.best_phi), condition, steps) <= found.uba + 1e-12
    assert found.others() == min(found.cosine, found.linear, found.wsd, found.constant)


@pytest.mark.parametrize("problem", [1, 2, 3])
def test_the_least_loss_is_an_optimum(problem: int) -> None:
    data = trials._data(problem)
    rng = np.random.default_rng(0)
    for scale in (0.01, 0.1, 1.0, 10.0):
        weights = scale * rng.standard_normal(trials.FEATURES)
        assert np.logaddexp(0, -data.signed @ weights).mean() > data.least


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_equal_norms_leave_what_linear_decay_leaves(optimizer: str) -> None:
    """Refinement of equal norms is the decay 1 − t / (T − 1), which is linear decay over one step less."""
    data, order = trials._data(1), trials._order(1, 0, 60)
    flat = refined([1.0] * 60, 2)
    factors = [Plan(flat, 60).factor(step) for step in range(60)]
    assert factors == pytest.approx([1 - step / 59 for step in range(60)])
    shorter = trials._run(data, order[:59], Linear(), optimizer)[0]
    assert trials._run(data, order, flat, optimizer)[0] == pytest.approx(shorter)


def test_a_seed_repeats_and_another_differs() -> None:
    one = trials.logistic(1, "sgd", seed=0, steps=50)
    assert one == trials.logistic(1, "sgd", seed=0, steps=50)
    assert one != trials.logistic(1, "sgd", seed=1, steps=50)
    assert min(one) >= 0
