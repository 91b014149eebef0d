"""What a file names and nothing reads is refused: predictors without a reader, host memory without a swap."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.core import slot as slots
from poise.core.errors import UserError
from poise.policies.find import find, names
from poise.scenario.build import build
from poise.scenario.idle import check_idle
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
    said = {(slot, name) for slot, name in every if getattr(find(slot, name), "reads_predictions", 0)}
    assert said == set(CASES)


@pytest.mark.parametrize("order", ["", "order: fcfs, "])
def test_a_predictor_that_nobody_asks_is_refused(tmp_path: Path, order: str) -> None:
    with pytest.raises(
        UserError, match=r"scenario\.yaml:4: policies\.predictor: no policy here reads.*; name one that"
    ):
        checked(tmp_path, f"policies: {{{order}predictor: history}}")
    file = tmp_path / "gateway.yaml"
    file.write_text(f"engines: [http://127.0.0.1:1]\npolicies: {{{order}predictor: history}}\n")
    with pytest.raises(UserError, match=r"gateway\.yaml:2: policies\.predictor: no policy here reads"):
        plan(load_gateway(file))


@pytest.mark.parametrize(("slot", "name"), [each for each in CASES if each[0] in ("order", "router")])
def test_one_that_is_asked_is_fine(tmp_path: Path, slot: str, name: str) -> None:
    checked(tmp_path, f"policies: {{{slot}: {name}, predictor: history}}")
    file = tmp_path / "gateway.yaml"
    file.write_text(f"engines: [http://127.0.0.1:1]\npolicies: {{{slot}: {name}, predictor: history}}\n")
    assert plan(load_gateway(file))


def test_in_a_comparison_one_that_asks_is_enough(tmp_path: Path) -> None:
    checked(tmp_path, "policies: {order: [fcfs, shortest_predicted], predictor: [null, oracle]}")


def test_a_policy_from_elsewhere_may_read_anything(tmp_path: Path) -> None:
    (tmp_path / "mine_idle.py").write_text("from poise.policies.order.fcfs import Fcfs\nclass Mine(Fcfs):\n    pass\n")
    checked(tmp_path, "policies: {order: 'mine_idle:Mine', predictor: history}")


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
