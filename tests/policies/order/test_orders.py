"""Each order against its rule: whom Control sends first of those that it holds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.control.control import Control
from poise.core.event import Arrived, Finished
from poise.core.policy import Order
from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec
from poise.core.units import SECOND
from poise.policies import Policies
from poise.policies.admit.ceiling import Ceiling
from poise.policies.find import build, names
from poise.policies.order.deficit_round_robin import DeficitRoundRobin
from poise.policies.order.edf import Edf
from poise.policies.order.fcfs import Fcfs
from poise.policies.order.priority import Priority
from poise.policies.order.shortest_predicted import ShortestPredicted
from poise.policies.order.weighted_round_robin import WeightedRoundRobin
from poise.policies.route.least_requests import LeastRequests
from poise.testing import a_request
from tests.depth import examples


def served(order: Order, *requests: RequestView, output_tokens: int = 1) -> list[int]:
    """Who is sent in which order by one replica that takes one request at a time; the first occupies it."""
    control = Control(Policies(router=LeastRequests(), order=order, admission=(Ceiling(requests=1),)), [ReplicaSpec()])
    first = a_request(id=99, tenant=99, prompt_tokens=1)
    control.handle(Arrived(0, first))
    for request in requests:
        control.handle(Arrived(request.arrived_at, request))
    sent = [99]
    while len(sent) <= len(requests):
        (action,) = control.handle(Finished(10**15, sent[-1], output_tokens))
        sent.append(action.request)  # type: ignore[union-attr]
    return sent[1:]


def test_first_come_first_served() -> None:
    crowd = [a_request(id=number, arrived_at=at, priority=-number) for number, at in enumerate((5, 3, 3, 9))]
    assert served(Fcfs(), *crowd) == [1, 2, 0, 3]


def test_priority_then_arrival() -> None:
    crowd = [a_request(id=number, arrived_at=number, priority=each) for number, each in enumerate((2, 0, 1, 0))]
    assert served(Priority(), *crowd) == [1, 3, 2, 0]


def test_the_earliest_deadline_and_those_without_one_after_a_time() -> None:
    deadlines = (0, 9, 4, 0)
    crowd = [
        a_request(id=number, arrived_at=number * SECOND, deadline_at=each * SECOND)
        for number, each in enumerate(deadlines)
    ]
    assert served(Edf(ttft_s=5.0), *crowd) == [2, 0, 3, 1]
    assert served(Edf(ttft_s=30.0), *crowd) == [2, 1, 0, 3]


def test_the_shortest_prediction_first_and_the_longest_waiting_in_the_end() -> None:
    work = (500, 100, 300, 100)
    crowd = [
        a_request(id=number, arrived_at=number * SECOND, predicted_tokens=each) for number, each in enumerate(work)
    ]
    assert served(ShortestPredicted(1.0, 0.0), *crowd) == [1, 3, 2, 0]
    assert served(ShortestPredicted(0.0, 0.0), *crowd) == [0, 1, 2, 3]
    assert served(ShortestPredicted(0.009, 0.0), *crowd) == [1, 3, 0, 2], "4.5, 1.9, 4.7 and 3.9 s"


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1000)), min_size=1, max_size=20), st.sampled_from([0.001, 0.1])
)
def test_no_request_is_overtaken_by_one_that_the_bound_forbids(crowd: list[tuple[int, int]], token_s: float) -> None:
    """Who goes before a request arrived at most `token_s` for each of its tokens after it."""
    requests = [
        a_request(id=number, arrived_at=at * SECOND, predicted_tokens=work)
        for number, (at, work) in enumerate(sorted(crowd))
    ]
    order = served(ShortestPredicted(token_s, 0.0), *requests)
    for place, number in enumerate(order):
        behind = requests[number]
        for other in order[:place]:
            assert requests[other].arrived_at <= behind.arrived_at + token_s * behind.predicted_tokens * SECOND + 1


def test_tenants_take_turns_by_weight() -> None:
    crowd = [a_request(id=number, tenant=number // 6, arrived_at=number) for number in range(12)]
    assert served(WeightedRoundRobin(), *crowd) == [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]
    weighted = served(WeightedRoundRobin({0: 3.0}), *crowd)
    assert [number // 6 for number in weighted[:8]] == [0, 1, 0, 0, 0, 1, 0, 0]


@pytest.mark.parametrize(("quantum", "turns"), [(30.0, "00010001"), (60.0, "00000011"), (10.0, "00010001")])
def test_a_deficit_is_a_quantum_of_work_in_each_round(quantum: float, turns: str) -> None:
    """Six prompts of 10 tokens beside two of 30: as much work of each, in grains of a quantum."""
    crowd = [
        a_request(id=number, tenant=number // 6, arrived_at=number, prompt_tokens=30 if number > 5 else 10)
        for number in range(8)
    ]
    sent = served(DeficitRoundRobin(quantum), *crowd, output_tokens=0)
    assert "".join(str(number // 6) for number in sent) == turns


def test_idling_saves_up_no_turns() -> None:
    """Tenant 1 comes after tenant 0 had ten turns, and is owed none of them."""
    order = WeightedRoundRobin()
    control = Control(Policies(router=LeastRequests(), order=order, admission=(Ceiling(requests=1),)), [ReplicaSpec()])
    for number in range(20):
        control.handle(Arrived(number, a_request(id=number, tenant=0, arrived_at=number)))
    for number in range(10):
        control.handle(Finished(100, number, 1))
    for number in range(20, 24):
        control.handle(Arrived(200, a_request(id=number, tenant=1, arrived_at=200)))
    sent = 10
    turns = []
    for _ in range(6):
        (action,) = control.handle(Finished(300, sent, 1))
        sent = action.request  # type: ignore[union-attr]
        turns.append(sent)
    assert turns == [20, 11, 21, 12, 22, 13]


@pytest.mark.deep
@pytest.mark.parametrize("name", names("order"))
@settings(max_examples=examples(100))
@given(crowd=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 900), st.integers(0, 2)), min_size=1, max_size=20))
def test_everybody_is_served_once(name: str, crowd: list[tuple[int, int, int]]) -> None:
    requests = [
        a_request(id=number, tenant=tenant, prompt_tokens=prompt, priority=priority, ids=(tenant, number // 2))
        for number, (tenant, prompt, priority) in enumerate(crowd)
    ]
    assert sorted(served(build("order", name), *requests, output_tokens=7)) == list(range(len(crowd)))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("edf", {"ttft_s": -1.0}),
        ("shortest_predicted", {"token_s": -1.0}),
        ("weighted_round_robin", {"weights": {1: 0}}),
        ("virtual_token_counter", {"input_weight": -1.0}),
        ("virtual_token_counter", {"weights": {"a": 1.0}}),
        ("deficit_longest_prefix", {"quantum": 0.0}),
        ("deficit_round_robin", {"quantum": 0.0}),
        ("deficit_round_robin", {"quantum": -4096.0}),
    ],
)
def test_parameters_that_make_no_sense(name: str, parameters: dict[str, float]) -> None:
    from poise.core.errors import ScenarioError

    with pytest.raises(ScenarioError, match=rf"policies\.order\.{name}(\.\w+)?: .*(give|must|above)"):
        build("order", name, parameters)
