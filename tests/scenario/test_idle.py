"""What is named and never asked is refused, in files and in Python; what something may ask is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import poise as ps
from poise.core import slot as slots
from poise.core.errors import UserError
from poise.policies.find import build as build_policy
from poise.policies.find import find, names
from poise.scenario.build import build
from poise.scenario.idle import _HOLD, check_idle
from poise.scenario.load import load
from poise.scenario.serve.build import plan
from poise.scenario.serve.load import load_gateway
from tests.policies.predict.test_predictive import CASES

SCENARIO = """\
model: llama-3.1-8b
cluster: {pools: [{device: H100}]}
workload: {poisson: {rate: 5, requests: 20}}
"""


def checked(tmp_path: Path, more: str) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(f"{SCENARIO}{more}\n")
    check_idle(build(load(file)))


def test_the_policies_that_say_so_are_those_that_read_predictions() -> None:
    every = ((slot, name) for slot in slots.SCENARIO for name in names(slot))
    marked = {(slot, name) for slot, name in every if getattr(find(slot, name), "reads_predictions", 0)}
    assert marked == set(CASES)


@pytest.mark.parametrize("order", ["", "order: fcfs, "])
def test_a_predictor_that_is_never_called_is_refused(tmp_path: Path, order: str) -> None:
    with pytest.raises(
        UserError, match=r"scenario\.yaml:4: policies\.predictor: no policy here reads.*; name one that"
    ):
        checked(tmp_path, f"policies: {{{order}predictor: history}}")
    file = tmp_path / "gateway.yaml"
    file.write_text(f"engines: [http://127.0.0.1:1]\npolicies: {{{order}predictor: history}}\n")
    with pytest.raises(UserError, match=r"gateway\.yaml:2: policies\.predictor: no policy here reads"):
        plan(load_gateway(file))


@pytest.mark.parametrize(("slot", "name"), [each for each in CASES if each[0] in ("order", "router")])
def test_one_that_is_called_is_fine(tmp_path: Path, slot: str, name: str) -> None:
    checked(tmp_path, f"policies: {{{slot}: {name}, predictor: history, admission: saturation}}")
    file = tmp_path / "gateway.yaml"
    file.write_text(f"engines: [http://127.0.0.1:1]\npolicies: {{{slot}: {name}, predictor: history}}\n")
    assert plan(load_gateway(file))


def test_in_a_comparison_one_that_asks_is_enough(tmp_path: Path) -> None:
    checked(tmp_path, "policies: {order: [fcfs, shortest_predicted], predictor: [null, oracle], router: pull}")


def test_a_policy_from_elsewhere_may_read_anything(tmp_path: Path) -> None:
    (tmp_path / "mine_idle.py").write_text("from poise.policies.order.fcfs import Fcfs\nclass Mine(Fcfs):\n    pass\n")
    checked(tmp_path, "policies: {order: 'mine_idle:Mine', predictor: history, admission: saturation}")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ("engine: {host_kv_gb: 4}", "engine.host_kv_gb"),
        ("engine: {host_kv_gb: 4}\npolicies: {preempt: last_admitted}", "engine.host_kv_gb"),
    ],
)
def test_host_memory_that_nothing_uses_is_refused(tmp_path: Path, more: str, field: str) -> None:
    with pytest.raises(
        UserError, match=rf"scenario\.yaml:4: {field}: nothing is swapped out there; give engine\.preem"
    ):
        checked(tmp_path, more)


def test_of_a_pool_too(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO.replace("H100}", "H100, engine: {host_kv_gb: 4}}"))
    with pytest.raises(UserError, match=r":2: cluster\.pools\.0\.engine\.host_kv_gb: nothing is swapped out"):
        check_idle(build(load(file)))


@pytest.mark.parametrize(
    "more",
    [
        "engine: {host_kv_gb: 4, preemption: swap}",
        "engine: {host_kv_gb: 0}",
        "engine: {host_kv_gb: 4}\npolicies: {preempt: [null, {last_admitted: {swap: true}}]}",
        "engine: {host_kv_gb: 4}\npolicies: {preempt: fast_switch}",
    ],
)
def test_host_memory_that_something_uses_is_fine(tmp_path: Path, more: str) -> None:
    checked(tmp_path, more)


IDLE = [
    ("order: priority", "admission: {ceiling: {requests: 9}}"),
    ("order: priority", "admission: saturation"),
    ("order: priority", "router: pull"),
    ("order: priority", "router: [round_robin, pull]"),
    ("order: priority", "scaler: hpa"),
    ("recovery: migrate", "scaler: hpa"),
]


@pytest.mark.parametrize(("idle", "given"), IDLE)
def test_an_order_or_a_recovery_that_is_never_called_is_refused(tmp_path: Path, idle: str, given: str) -> None:
    slot = idle.split(":")[0]
    for beside in ("router: round_robin", "admission: early_reject", "admission: tenant_limits"):
        with pytest.raises(UserError, match=rf"scenario\.yaml:4: policies\.{slot}: no.*; add .*, or"):
            checked(tmp_path, f"policies: {{{idle}, {beside}}}")
    more = "" if "scaler" not in given else "\ncluster: {pools: [{device: H100, max_replicas: 4}]}"
    base = SCENARIO if not more else SCENARIO.replace("cluster: {pools: [{device: H100}]}\n", "")
    file = tmp_path / "scenario.yaml"
    file.write_text(f"{base}policies: {{{idle}, {given}}}{more}\n")
    check_idle(build(load(file)))
    lost = SCENARIO.replace("H100}]", "H100, replicas: 2}], faults: [{kind: lost, replica: 0, at_s: 1}]")
    file.write_text(f"{lost}policies: {{{idle}}}\n")
    check_idle(build(load(file)))


@pytest.mark.parametrize("policy", ["mover: central_search", "lender: infinite_llm", "hedge: tail"])
def test_what_acts_between_replicas_takes_two(tmp_path: Path, policy: str) -> None:
    slot = policy.split(":")[0]
    with pytest.raises(UserError, match=rf"policies\.{slot}: it .* another replica, and there is one; give"):
        checked(tmp_path, f"policies: {{{policy}}}")
    file = tmp_path / "scenario.yaml"
    file.write_text(f"{SCENARIO.replace('H100}', 'H100, replicas: 2}')}policies: {{{policy}}}\n")
    check_idle(build(load(file)))


def test_python_says_so_too() -> None:
    cluster = ps.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b")
    workload = ps.workload.poisson(5, requests=20)
    predicted = ps.Policies(predictor=find("predictor", "history")())
    with pytest.raises(UserError, match=r"^policies\.predictor: no policy here reads"):
        ps.simulate(cluster, workload, predicted)
    with pytest.raises(UserError, match=r"^policies\.predictor: no policy here reads"):
        ps.compare(cluster, workload, {"one": ps.Policies(), "other": predicted})


def test_those_marked_as_holding_are_the_routers_that_can() -> None:
    routers = {type(build_policy("router", name)) for name in names("router")}
    holding = {each.__module__ for each in routers if hasattr(sys.modules[each.__module__], "Hold")}
    assert holding == set(_HOLD)
