"""A scenario that asks for an engine's costs gets what validation scores, and says where it is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.catalogue.engines import engine_defaults
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Cluster
from poise.cost.tables import SHIPPED
from poise.scenario.build import Problem, build
from poise.scenario.engine_cost import EngineCost, cost_for
from poise.scenario.load import load
from poise.scenario.resolve import resolved, write_yaml

TEXT = """\
model: llama-3.1-70b
cluster: {pools: [{device: H100, tensor: 4}]}
workload: {poisson: {rate: 1, requests: 2, prompt_tokens: 100, output_tokens: 10}}
cost: COST
"""


def built(folder: Path, cost: str) -> Problem:
    path = folder / "scenario.yaml"
    path.write_text(TEXT.replace("COST", cost), encoding="utf-8")
    return build(load(path))


@pytest.mark.parametrize(
    ("engine", "version"), [("vllm", ""), ("vllm", "0.6"), ("SGLang", ""), ("tensorrt-llm", "1.0")]
)
def test_steps_are_those_that_validation_scores(tmp_path: Path, engine: str, version: str) -> None:
    problem = built(tmp_path, f'{{engine: {engine}, version: "{version}"}}')
    assert problem.cost == EngineCost(engine, version)
    pool = problem.cluster.pools[0]
    for decodes in (1, 32, 200):
        ours, scored = (
            each.step(StepShape(decodes)) for each in (problem.cost.build(pool), cost_for(pool, engine, version))
        )
        assert ours == scored
    write_yaml(resolved(problem), tmp_path / "again.yaml")
    assert build(load(tmp_path / "again.yaml")).cost == problem.cost


def test_an_engine_runs_by_the_tables_of_a_file(tmp_path: Path) -> None:
    """The products of the file are twice as slow as those that ship; a scenario's copy names the same file."""
    slow = json.loads(SHIPPED.read_bytes())
    for table in slow["tables"]:
        if table["kind"] == "gemm":
            table["shape"][1:3] = [part / 2 for part in table["shape"][1:3]]
    (tmp_path / "own.json").write_text(json.dumps(slow), encoding="utf-8")
    problem = built(
        tmp_path, "{engine: vllm, tables: own.json, speculative: {method: ngram, num_speculative_tokens: 2}}"
    )
    pool, shape = problem.cluster.pools[0], StepShape(0, (Chunk(4096, 0),))
    shipped = built(tmp_path, "{engine: vllm, speculative: {method: ngram, num_speculative_tokens: 2}}").cost
    assert problem.cost.build(pool).step(shape).base > 1.4 * shipped.build(pool).step(shape).base
    (tmp_path / "elsewhere").mkdir()
    write_yaml(resolved(problem), tmp_path / "elsewhere" / "again.yaml")
    again = build(load(tmp_path / "elsewhere" / "again.yaml")).cost
    assert again.build(pool).step(shape) == problem.cost.build(pool).step(shape)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{engine: triton}", r"scenario.yaml:4: cost.engine: 'triton' is not a known engine"),
        ("{engine: vllm, versoin: 1}", "versoin"),
        ("{engine: vllm, tables: none.json}", r"scenario.yaml:4: cost.tables: .*none.json"),
        ("{engine: vllm, tables: scenario.yaml}", r"scenario.yaml:4: cost.tables: .*`poise calibrate --profiles`"),
    ],
)
def test_mistakes_point_into_the_file(tmp_path: Path, given: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        built(tmp_path, given)


PAIR = """\
model: llama-3.1-8b
cluster: {pools: [{device: H100, role: prefill}, {device: H100, role: decode}]GIVEN}
workload: {poisson: {rate: 1, requests: 2, prompt_tokens: 100, output_tokens: 10}}
cost: COST
"""


@pytest.mark.parametrize(
    ("cost", "given", "latency_s"),
    [
        ("{engine: vllm}", "", engine_defaults("vllm").handed_s),
        ("{engine: vllm}", ", link_latency_s: 0.001", 0.001),
        ("{engine: SGLang}", "", Cluster(()).link_latency_s),
        ("roofline", "", Cluster(()).link_latency_s),
    ],
)
def test_a_pair_of_pools_hands_over_as_its_engine_does(tmp_path: Path, cost: str, given: str, latency_s: float) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(PAIR.replace("COST", cost).replace("GIVEN", given), encoding="utf-8")
    problem = build(load(path))
    assert problem.cluster.link_latency_s == latency_s
    again = tmp_path / "again.yaml"
    write_yaml(resolved(problem), again)
    assert build(load(again)).cluster == problem.cluster
