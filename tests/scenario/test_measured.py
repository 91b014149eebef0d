"""A scenario that asks for measured costs is simulated with them, resolves to them, and says where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.core.errors import ScenarioError
from poise.cost import Measured, Roofline
from poise.cost.tables import SHIPPED
from poise.scenario.build import build
from poise.scenario.load import load
from poise.scenario.resolve import resolved

TEXT = """\
model: llama-3.1-8b
cluster: {pools: [{device: H100}]}
workload: {poisson: {rate: 1, requests: 2, prompt_tokens: 100, output_tokens: 10}}
cost: COST
"""


def cost_of(folder: Path, cost: str) -> object:
    path = folder / "scenario.yaml"
    path.write_text(TEXT.replace("COST", cost), encoding="utf-8")
    return build(load(path)).cost


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("measured", Measured()),
        ("{measured: {cpu_step_s: 0.001}}", Measured(cpu_step_s=0.001)),
        ("roofline", Roofline()),
        ("{gemm_bf16: 0.5}", Roofline(gemm_bf16=0.5)),
    ],
)
def test_a_cost_is_named_or_given_with_efficiencies(tmp_path: Path, given: str, made: object) -> None:
    assert cost_of(tmp_path, given) == made


def test_own_tables_are_found_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_bytes(SHIPPED.read_bytes())
    made = cost_of(tmp_path, "{measured: {}, tables: own.json}")
    assert isinstance(made, Measured)
    assert Path(made.tables).samefile(tmp_path / "own.json")


def test_it_resolves_to_what_builds_the_same(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(TEXT.replace("COST", "measured"), encoding="utf-8")
    problem = build(load(path))
    settings = resolved(problem)["cost"]
    assert settings["tables"] is None
    assert Measured(**settings["measured"]) == problem.cost


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{measured: {gemm: 0.5}}", r"scenario.yaml:4: cost.measured.gemm: unknown"),
        ("{measured: {}, tables: none.json}", r"scenario.yaml:4: cost.tables: .*none.json: cannot be read"),
        ("{measured: {link: 0}}", r"cost.measured.link: 0 must be above 0"),
        ("measurd", r"scenario.yaml:4: cost"),
    ],
)
def test_mistakes_point_into_the_file(tmp_path: Path, given: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        cost_of(tmp_path, given)
