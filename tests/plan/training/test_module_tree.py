"""Cuts of a tree of modules against brute force, and what every cut has in common."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import model
from poise.core.errors import ScenarioError
from poise.pipeline.even_cut import even_cut
from poise.plan.training.module_balance import filtering_balance, transformer, transformer_balance
from poise.plan.training.module_tree import Module, dhondt, partition

costs = st.lists(st.floats(0.1, 10), min_size=1, max_size=8)
sizes = st.tuples(st.floats(0.1, 10), st.floats(0.1, 10))
leaves = st.builds(lambda each: Module("leaf", *each), sizes)
trees = st.recursive(
    leaves, lambda parts: st.builds(lambda some: Module.of("module", some), st.lists(parts, min_size=1, max_size=4))
)


@given(costs, st.data())
def test_runs_have_the_least_largest_sum(costs: list[float], data: st.DataObject) -> None:
    runs = data.draw(st.integers(1, len(costs)))
    ways = [(0, *inner, len(costs)) for inner in combinations(range(1, len(costs)), runs - 1)]
    best = min(max(sum(costs[one:two]) for one, two in pairwise(ends)) for ends in ways)
    found = [range(*each) for each in even_cut(costs, runs)]
    assert [at for run in found for at in run] == list(range(len(costs))) and all(found)
    assert max(sum(costs[at] for at in run) for run in found) == pytest.approx(best)


@given(costs, st.integers(0, 20))
def test_dhondt_leaves_no_seat_that_another_would_pay_more_for(costs: list[float], seats: int) -> None:
    given_ = dhondt(costs, seats)
    assert sum(given_) == seats
    paid = [cost / seat for cost, seat in zip(costs, given_, strict=True) if seat]
    offered = max(cost / (seat + 1) for cost, seat in zip(costs, given_, strict=True))
    assert not paid or min(paid) >= offered - 1e-12


@given(trees, st.integers(1, 6), st.floats(0, 1))
def test_every_leaf_is_on_one_device_in_order(root: Module, devices: int, weight: float) -> None:
    stages = partition(root, devices, weight)
    assert [id(each) for stage in stages for each in stage] == [id(each) for each in root.leaves()]
    assert len(stages) == devices


def test_equal_layers_are_cut_evenly() -> None:
    root = Module.of("model", [Module("layer", 1.0, 1.0)] * 12)
    for devices in (1, 2, 3, 4, 6, 12):
        assert [len(stage) for stage in partition(root, devices)] == [12 // devices] * devices


def test_a_transformer_has_the_models_weights() -> None:
    bert = model("llama-2-7b")
    root = transformer(bert, 1)
    assert root.memory == pytest.approx(bert.parameters - bert.vocab * bert.hidden, rel=0.01)  # the head's are its own


def test_nothing_is_better_than_the_best_runs() -> None:
    for devices in (2, 3, 5, 8):
        found = transformer_balance(model("llama-2-7b"), devices, 0.5)
        assert found.tree >= found.best - 1e-12 and found.best >= 1 / devices
        assert filtering_balance(devices, 0.8).tree >= filtering_balance(devices, 0.8).best - 1e-12


@pytest.mark.parametrize(("devices", "weight"), [(0, 0.5), (2, 1.5)])
def test_what_cannot_be_is_refused(devices: int, weight: float) -> None:
    with pytest.raises(ScenarioError, match="give 1 or more devices, and a weight of 0 to 1"):
        partition(Module("leaf", 1.0, 1.0), devices, weight)
