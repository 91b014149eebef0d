"""Speed guarded by counts, never by clocks: what the simulator does per request, whatever the length of the run."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from poise.core.control.control import Control
from poise.core.engine.replica import Replica
from poise.core.estimate import Piece, StepShape
from poise.core.event import Arrived
from poise.core.request import RequestView
from poise.core.request import Sequence as Running
from poise.core.spec import Belief, Cluster, Engine, Lane, Pool, ReplicaSpec
from poise.policies import Policies
from poise.policies.find import build, names
from poise.scenario.simulate import build_world
from poise.testing.cost import LinearCost
from poise.workload import poisson
from tests.sim.cases import DEVICE, MODEL

SPLIT = (Lane("p", decode=False, share=0.5), Lane("d", prefill=False, share=0.5))


class Counting:
    """A cost recipe that counts how often a step is estimated."""

    def __init__(self) -> None:
        self.calls = 0

    def build(self, pool: Pool) -> Any:
        counter = self

        class Counted(LinearCost):
            def step(self, shape: StepShape) -> Piece:
                counter.calls += 1
                return LinearCost.step(self, shape)

        return Counted(step_s=0.007, decode_s=2e-5, prompt_s=2e-5, kv_s=5e-8, layers=pool.model.layers)


def count(
    router: str, requests: int, replicas: int, rate: float, monkeypatch: pytest.MonkeyPatch, batcher: str = "chunked"
) -> dict[str, float]:
    """Per request: turns of replicas, batches, steps simulated, estimator calls and looks at replicas."""
    looks = turns = 0
    look, turn = Replica.look, Replica.turn

    def counted_look(self: Replica, *args: Any) -> Any:
        nonlocal looks
        looks += 1
        return look(self, *args)

    def counted_turn(self: Replica, *args: Any) -> Any:
        nonlocal turns
        turns += 1
        return turn(self, *args)

    monkeypatch.setattr(Replica, "look", counted_look)
    monkeypatch.setattr(Replica, "turn", counted_turn)
    cost = Counting()
    lanes = SPLIT if batcher in ("semi_pd", "nexus") else (Lane(),)
    workload = poisson(rate * replicas, requests=requests, prompt_tokens=1000, output_tokens=200, seed=1)
    cluster = Cluster((Pool(MODEL, DEVICE, replicas=replicas, engine=Engine(kv_blocks=30_000, lanes=lanes)),))
    policies = Policies(router=build("router", router), batcher=build("batcher", batcher))
    run = build_world(cluster, workload, policies, cost, Belief()).simulate()
    stats = run.replicas
    return {
        "turns": turns / requests,
        "batches": sum(each.batches for each in stats) / requests,
        "steps": sum(each.steps for each in stats) / requests,
        "estimates": cost.calls / requests,
        "looks": looks / requests,
    }


@pytest.mark.parametrize("rate", [2.0, 6.0])
@pytest.mark.parametrize("replicas", [1, 16])
def test_a_request_costs_three_batches_however_many_steps(
    replicas: int, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = count("round_robin", 1000, replicas, rate, monkeypatch)
    assert each["steps"] > 15
    assert each["batches"] < 3.1  # its chunk, the batch it interrupts and the batch it ends
    assert each["turns"] < each["batches"] + 0.6  # starts of idle replicas
    assert each["estimates"] < 1.3  # chunks, and each decode shape once a lane
    assert each["looks"] == 0  # nobody reads the reports, so none is made


@pytest.mark.parametrize(
    ("batcher", "batches", "estimates"),
    [
        ("sarathi", 3.1, 1.3),
        ("layered_prefill", 4.5, 3.0),
        ("flow_prefill", 3.5, 6.0),
        ("medha", 8.0, 16.0),
        ("laps", 3.5, 3.0),
        ("semi_pd", 19.0, 28.0),  # lanes side by side compose after each step
        ("nexus", 19.0, 34.0),
    ],
)
def test_batchers_by_layers_lanes_and_predictions_stay_cheap(
    batcher: str, batches: float, estimates: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = count("round_robin", 1000, 4, 6.0, monkeypatch, batcher)
    assert each["steps"] > 10
    assert each["batches"] < batches
    assert each["estimates"] < estimates


def calls_of_steps(batcher: str, waiting: int, steps: int = 30) -> int:
    """Python functions called in the steps of a replica at which so many requests wait, after the first step."""
    cost = LinearCost(step_s=0.007, decode_s=2e-5, prompt_s=2e-5, kv_s=5e-8, layers=8)
    engine = Engine(prefix_caching=False, max_sequences=10_000)
    policy = build("batcher", batcher)
    replica = Replica(
        engine, cost, 100_000, Policies(batcher=policy, preempt=build("preempt", "last_admitted")), layers=8
    )
    for number in range(waiting):
        replica.add(Running(RequestView(number, number, 200 + number * 37 % 3000), 100), 0)
    replica.turn(0)
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in range(steps):
            replica.turn(replica.next_at)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("batcher", ["batch_llm", "flow_prefill", "laps", "medha"])
def test_a_step_does_not_look_at_all_who_wait(batcher: str) -> None:
    assert calls_of_steps(batcher, 4000) < 2.5 * calls_of_steps(batcher, 1000)  # not four times as many


def test_the_cost_of_a_request_does_not_grow_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    short = count("least_requests", 500, 4, 6.0, monkeypatch)
    long = count("least_requests", 4000, 4, 6.0, monkeypatch)
    assert long["turns"] == pytest.approx(short["turns"], rel=0.05)
    assert long["looks"] == short["looks"] == 0  # its own dispatches are all that it reads


def test_reports_are_looked_at_once_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    each = count("least_tokens", 1000, 16, 6.0, monkeypatch)
    seconds = 1000 / 96
    assert each["looks"] * 1000 <= 16 * (seconds + 5)


LOOKS_AT_REPLICAS = {"caraserve", "dualmap", "hexgen_text2sql", "pull"}
"""Routers that go through the replicas' requests one by one, or make a pair anew as a prefix gets hot."""


def python_calls(router: str, replicas: int, extents: int = 0, decisions: int = 50) -> float:
    """Python functions called for each decision and dispatch of a warm control side."""
    spec = ReplicaSpec(blocks=1000, cache_tokens=10**6, prefill_rate=1e4)
    control = Control(Policies(router=build("router", router)), [spec] * replicas)
    ends = tuple(range(512, 512 * (extents + 1), 512))
    requests = [
        RequestView(row, 0, 512 * extents + 9, 0, tuple(range(row % 7 * 100, row % 7 * 100 + extents)), ends)
        for row in range(2 * decisions)
    ]
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    for request in requests[:decisions]:
        control.handle(Arrived(0, request))
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for request in requests[decisions:]:
            control.handle(Arrived(0, request))
    finally:
        sys.setprofile(before)
    return calls / decisions


@pytest.mark.parametrize("extents", [0, 20])
@pytest.mark.parametrize("router", sorted({*names("router")} - LOOKS_AT_REPLICAS))
def test_a_decision_calls_as_many_functions_at_eighty_replicas_as_at_eight(router: str, extents: int) -> None:
    """Routers read columns: what grows with the cluster is the length of a list that C goes through."""
    assert python_calls(router, 80, extents) == pytest.approx(python_calls(router, 8, extents), abs=8)
