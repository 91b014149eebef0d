"""Each predictor against its rule, and that the one in a simulation is asked once a request and told of every end."""

from __future__ import annotations

from math import exp, log
from statistics import NormalDist, median, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.chance import Chance
from poise.core.control.control import Control
from poise.core.errors import PolicyError, ScenarioError
from poise.core.event import Arrived, Finished
from poise.core.records.records import FINISHED
from poise.core.request import RequestView
from poise.core.spec import Belief, Cluster, Engine, Pool, ReplicaSpec
from poise.policies import Policies
from poise.policies.find import build
from poise.policies.predict.constant import Constant
from poise.policies.predict.history import History, Lately
from poise.policies.predict.noisy import Noisy
from poise.policies.predict.oracle import Oracle
from poise.policies.route.least_requests import LeastRequests
from poise.scenario.simulate import build_world
from poise.testing import a_chance, a_request
from poise.workload import poisson
from tests.sim.cases import DEVICE, MODEL
from tests.sim.test_fair_shares import Recipe


def test_a_constant_within_the_clients_limit() -> None:
    assert Constant(50).predict(a_request(), a_chance()) == 50
    assert Constant(50).predict(a_request(max_tokens=20), a_chance()) == 20


@given(st.lists(st.integers(1, 99), min_size=1, max_size=30), st.integers(1, 9), st.floats(0, 1))
def test_a_quantile_of_the_last_ones(values: list[int], window: int, share: float) -> None:
    lately = Lately(window)
    for value in values:
        lately.add(value)
    kept = sorted(values[-window:])
    found = lately.quantile(share)
    assert found in kept
    assert sum(value <= found for value in kept) >= share * len(kept)
    assert found == kept[0] or sum(value < found for value in kept) < share * len(kept)


def test_history_knows_its_tenant_then_all_then_a_first_guess() -> None:
    history, chance = History(least=2, first=77), a_chance()
    assert history.predict(a_request(tenant=1), chance) == 77
    for output in (10, 30, 20):
        history.learn(a_request(tenant=1), output)
    assert history.predict(a_request(tenant=1), chance) == 20
    assert history.predict(a_request(tenant=2), chance) == 20, "what all had"
    history.learn(a_request(tenant=2), 500)
    assert history.predict(a_request(tenant=2), chance) == 20
    history.learn(a_request(tenant=2), 500)
    assert history.predict(a_request(tenant=2), chance) == 500
    assert history.predict(a_request(tenant=2, max_tokens=100), chance) == 100
    assert history.predict(a_request(tenant=2, model=1), chance) == 77, "another model"


def test_the_oracle_is_right_and_only_where_the_length_is_known() -> None:
    oracle = Oracle()
    with pytest.raises(PolicyError, match="only a simulation knows; take history"):
        oracle.predict(a_request(), a_chance())
    oracle.reveal(lambda row: row + 5)
    assert oracle.predict(a_request(id=3), a_chance()) == 8


def test_noise_is_log_normal_and_keyed_by_the_request() -> None:
    noisy = Noisy(0.5)
    noisy.reveal(lambda row: 10_000)
    guesses = [noisy.predict(a_request(id=row), Chance(0, row)) for row in range(4000)]
    errors = sorted(log(guess / 10_000) for guess in guesses)
    assert stdev(errors) == pytest.approx(0.5, rel=0.05)
    normal = NormalDist(0, 0.5)
    gap = max(abs(normal.cdf(error) - place / 4000) for place, error in enumerate(errors))
    assert gap < 1.63 / 4000**0.5, "Kolmogorov and Smirnov, 1 %"
    assert median(guesses) == pytest.approx(10_000, rel=0.03)
    assert noisy.predict(a_request(id=7), Chance(0, 7)) == guesses[7]
    noisy = Noisy(0.0)
    noisy.reveal(lambda row: 9)
    assert noisy.predict(a_request(), a_chance()) == 9


def test_policies_see_what_is_predicted_and_the_predictor_learns_what_came() -> None:
    seen: list[RequestView] = []

    class Watching(LeastRequests):
        def route(self, request, cluster, chance):  # type: ignore[no-untyped-def]
            seen.append(request)
            return super().route(request, cluster, chance)

    control = Control(Policies(router=Watching(), predictor=History(least=1, first=9)), [ReplicaSpec()])
    for number in range(2):
        control.handle(Arrived(number, a_request(id=number)))
        control.handle(Finished(number, number, 40))
    assert [request.predicted_tokens for request in seen] == [9, 40]


@pytest.mark.parametrize("name", ["oracle", "noisy", "constant", "history"])
def test_a_simulation_with_each(name: str) -> None:
    """The truth is revealed to the copies that decide, and a copy of a control can go on with it."""
    workload = poisson(50.0, requests=60, prompt_tokens=100, output_tokens=20, seed=3)
    cluster = Cluster((Pool(MODEL, DEVICE, replicas=2, engine=Engine(kv_blocks=1000)),))
    policies = Policies(predictor=build("predictor", name))
    world = build_world(cluster, workload, policies, Recipe(), Belief(gateways=2))
    clones = [control.clone() for control in world.gateways.controls]
    run = world.simulate()
    assert {*run.records.status} == {FINISHED}
    predicted = clones[0].predictor.predict(a_request(id=7), Chance(0, 7))  # type: ignore[union-attr]
    if name == "oracle":
        assert predicted == workload.output[7]
    assert predicted >= 1


@pytest.mark.parametrize(
    ("name", "parameters"), [("constant", {"tokens": 0}), ("history", {"quantile": 2.0}), ("noisy", {"sigma": -exp(1)})]
)
def test_parameters_that_make_no_sense(name: str, parameters: dict[str, float]) -> None:
    with pytest.raises(ScenarioError, match=rf"policies\.predictor\.{name}"):
        build("predictor", name, parameters)
