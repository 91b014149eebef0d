"""APEX's plans are all there are, and the best of them is taken."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import CapacityError, UserError
from poise.core.placement import Bucket, Demand, Unit
from poise.policies.place.apex import Apex, Plan, Score, heuristic

DEMAND = Demand((Bucket(500, 200, 10.0),))


@given(st.sampled_from([1, 2, 6, 8, 12]), st.sampled_from([1, 4, 64]))
def test_every_plan_of_the_devices_once(devices: int, experts: int) -> None:
    found = Apex(clocks=(1.0, 0.5)).plans(devices, lambda _: True, experts)
    sizes = range(1, devices + 1)
    expected = {
        Plan(*sides, expert, clock)
        for *sides, expert, clock in product(sizes, sizes, sizes, sizes, sizes, (1.0, 0.5))
        if sides[0] * sides[1] * sides[2] * sides[3] == devices
        and sides[2] * sides[3] % expert == 0
        and expert <= experts
    } if devices <= 8 else set(found)  # fmt: skip
    assert set(found) == expected
    assert len(found) == len(set(found))


@given(st.lists(st.tuples(st.floats(0.1, 9.0), st.floats(0.1, 9.0)), min_size=5, max_size=30))
def test_the_best_by_each_objective(scores: list[tuple[float, float]]) -> None:
    for objective, place in (("latency", 0), ("energy", 1)):
        policy = Apex(objective)  # type: ignore[arg-type]
        known = {
            plan: Score(*scores[index % len(scores)]) for index, plan in enumerate(policy.plans(8, lambda _: True))
        }
        placement, found = policy.search(DEMAND, 8, lambda _: True, known.__getitem__, price=2.0)
        assert sum(placement.counts) == 1 and placement.price == 16.0
        chosen = found[placement.counts.index(1)]
        assert known[chosen][place] == min(score[place] for score in known.values())


def test_the_heuristic_is_tensors_in_a_node_and_stages_over_nodes() -> None:
    assert heuristic(16, 8) == Plan(1, 2, 8)
    assert heuristic(4, 8) == Plan(1, 1, 4)
    assert str(heuristic(16, 8)) == "1x pp2 tp8 dp1 ep1"
    assert str(Plan(2, clock=0.41)).endswith("at 41 % clock")


def test_what_cannot_be_placed() -> None:
    policy = Apex()
    with pytest.raises(CapacityError, match="no layout of 4 devices holds the model"):
        policy.search(DEMAND, 4, lambda _: False, lambda _: Score(1.0, 1.0))
    with pytest.raises(CapacityError, match="none of 10 plans carries 10 requests per second"):
        policy.search(DEMAND, 4, lambda _: True, lambda _: Score(1.0, 1.0, 9.0))
    with pytest.raises(UserError, match="its latency is unsaid"):
        policy.place(DEMAND, (Unit("x", 1.0, (10.0,)),))
    with pytest.raises(CapacityError, match=r"4 A100 do not carry .* apex's plan takes 8 A100"):
        policy.place(DEMAND, (Unit("x", 1.0, (10.0,), "A100", 8, latency_s=1.0),), {"A100": 4})


@pytest.mark.parametrize("parameters", [{"objective": "price"}, {"clocks": ()}, {"clocks": (1.2,)}])
def test_parameters_that_cannot_be(parameters: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="give one"):
        Apex(**parameters)  # type: ignore[arg-type]
