"""Every policy that reads foretold outputs runs with each kind of predictor: the truth, errors, and one number."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from poise.core.records.records import FINISHED
from poise.core.slot import SCENARIO
from poise.core.spec import Belief, Cluster, Engine, Pool
from poise.policies import Policies
from poise.policies.find import build, find, names
from poise.scenario.simulate import build_world
from poise.workload import poisson
from tests.sim.cases import DEVICE, MODEL
from tests.sim.test_fair_shares import Recipe

PREDICTORS = ("oracle", "noisy", "constant")
LEDGER = "poise.policies.kit.flow_ledger"
"""Where outputs are charged as foretold, for whoever keeps one."""


def predictive() -> Iterator[tuple[str, str]]:
    """Slot and name of each built-in policy whose module reads `predicted_tokens`, or keeps the ledger that does."""
    for slot in SCENARIO:
        for name in names(slot):
            tree = ast.parse(inspect.getsource(inspect.getmodule(find(slot, name))))  # type: ignore[arg-type]
            reads = any(isinstance(node, ast.Attribute) and node.attr == "predicted_tokens" for node in ast.walk(tree))
            keeps = any(
                isinstance(node, ast.ImportFrom)
                and node.module == LEDGER
                and "Ledger" in {each.name for each in node.names}
                for node in ast.walk(tree)
            )
            if reads or keeps:
                yield slot, name


CASES = list(predictive())


def test_the_known_ones_are_found() -> None:
    assert {("order", "shortest_predicted"), ("order", "virtual_token_counter")} <= set(CASES)


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize(("slot", "name"), CASES)
def test_all_requests_end_and_the_run_repeats(slot: str, name: str, predictor: str) -> None:
    first, again = (_ends(slot, name, predictor) for _ in range(2))
    assert np.array_equal(first, again)


def _ends(slot: str, name: str, predictor: str) -> Any:
    load = poisson(80.0, requests=120, prompt_tokens=100, output_tokens={"lognormal": {"mean": 30, "cv": 1.5}}, seed=3)
    load = replace(load, tenant=np.arange(120, dtype=np.int32) % 3)
    engine = Engine(kv_blocks=1000, max_sequences=8)
    policy = build(slot, name)
    ceiling = build("admission", "ceiling", {"requests": 6})
    policies = replace(
        Policies(predictor=build("predictor", predictor), admission=(ceiling,)),
        **{slot: (ceiling, policy) if slot == "admission" else policy},
    )
    cluster = Cluster((Pool(MODEL, DEVICE, replicas=2, engine=engine),))
    run = build_world(cluster, load, policies, Recipe(), Belief()).simulate()
    assert {*run.records.status} == {FINISHED}
    return np.array(run.records.ended_at)


def test_a_predictor_matters_to_who_foretells() -> None:
    """Under a load that queues at the gateway, shortest predicted first finishes in another order by each."""
    ends = {name: tuple(_ends("order", "shortest_predicted", name)) for name in PREDICTORS}
    assert len(set(ends.values())) == 3
