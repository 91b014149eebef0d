"""DistServe's two algorithms against a search of everything, and what they say where nothing fits."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import CapacityError, UserError
from poise.core.placement import Bucket, Demand, Unit
from poise.policies.place.distserve import Candidate, DistServe, Layout, goodput

DEMAND = Demand((Bucket(500, 200, 10.0),))


def fits(layout: Layout) -> bool:
    """Layouts of a model that needs two devices, with 40 heads and 40 layers."""
    return layout.devices >= 2 and 40 % layout.tensor == 0 and 40 % layout.pipeline == 0


@given(st.floats(0.0, 16.0), st.floats(0.05, 1.0))
def test_goodput_is_the_last_rate_that_meets(limit: float, epsilon: float) -> None:
    found = goodput(lambda rate: rate <= limit, 16.0, epsilon)
    assert found <= limit
    assert found > min(limit, 16.0) - epsilon - 1e-9


def test_high_affinity_lists_every_layout_for_both_phases() -> None:
    found = DistServe("high", nodes=2, node_devices=4).candidates(fits)
    layouts = {Layout(tensor, pipeline) for tensor in (1, 2, 4) for pipeline in range(1, 9)}
    expected = {each for each in layouts if each.devices <= 8 and fits(each)}
    assert {each.prefill for each in found if each.role == "prefill"} == expected
    assert {each.decode for each in found if each.role == "decode"} == expected
    assert len(found) == 2 * len(expected)


def test_low_affinity_keeps_segments_of_equal_layers_in_a_node() -> None:
    found = DistServe("low", nodes=2, node_devices=4).candidates(fits)
    assert found
    for each in found:
        assert each.prefill and each.decode and each.role == "mixed"
        assert each.prefill.pipeline % each.stages == each.decode.pipeline % each.stages == 0
        assert each.devices / each.stages <= 4
    assert Candidate(Layout(2, 2), Layout(2, 2), 2) in found, "two on two nodes, each half beside its partner"
    assert Candidate(Layout(2, 1), Layout(4, 1), 1) not in found, "six devices do not share a node"


@given(st.lists(st.floats(0.1, 9.0), min_size=40, max_size=40), st.sampled_from(["high", "low"]))
def test_the_best_per_device_as_often_as_the_rate_needs(rates: list[float], affinity: str) -> None:
    policy = DistServe(affinity, nodes=2, node_devices=4)  # type: ignore[arg-type]
    known = {each: rates[index % len(rates)] for index, each in enumerate(policy.candidates(fits))}
    placement, found = policy.search(DEMAND, fits, lambda each: known[each], price=2.0)
    chosen = [index for index, count in enumerate(placement.counts) if count]
    assert {found[index].role for index in chosen} == ({"mixed"} if affinity == "low" else {"prefill", "decode"})
    for index in chosen:
        mine = [each for each in found if each.role == found[index].role]
        assert known[found[index]] / found[index].devices == max(known[each] / each.devices for each in mine)
        assert placement.counts[index] == ceil(10.0 / known[found[index]])
    assert placement.price == sum(2.0 * found[index].devices * placement.counts[index] for index in chosen)
    assert placement.bound <= placement.price


def test_what_cannot_be_placed() -> None:
    policy = DistServe(nodes=1, node_devices=2)
    with pytest.raises(CapacityError, match="no layout within 1 nodes of 2 devices holds the model"):
        policy.search(DEMAND, lambda _: False, lambda _: 1.0)
    with pytest.raises(CapacityError, match=r"4 A100 do not carry .* distserve's placement takes 8 A100"):
        policy.search(DEMAND, fits, lambda _: 5.0, "A100", available=4)
    with pytest.raises(CapacityError, match="meets the SLO for requests of 500 prompt"):
        policy.search(DEMAND, fits, lambda _: 0.0)
    with pytest.raises(CapacityError, match="no unit to place"):
        policy.place(DEMAND, ())
    with pytest.raises(CapacityError, match="no unit serves prefill; with high affinity it needs one"):
        policy.place(DEMAND, (Unit("x", 1.0, (1.0,)),))
    with pytest.raises(UserError, match="2 buckets; goodput is of the mixed demand"):
        policy.place(Demand(DEMAND.buckets * 2), (Unit("x", 1.0, (1.0, 1.0)),))


@pytest.mark.parametrize("parameters", [{"affinity": "some"}, {"nodes": 0}, {"node_devices": 0}])
def test_parameters_that_cannot_be(parameters: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="give"):
        DistServe(**parameters)  # type: ignore[arg-type]
