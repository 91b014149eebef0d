"""Terms in a scenario: built around any cost, written out, read back, and wrong ones pointed at."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from poise.catalogue import device, model
from poise.cli import main
from poise.core.errors import ScenarioError
from poise.core.estimate import Estimator, StepShape
from poise.core.spec import Cluster, Engine, Pool
from poise.cost import Measured, Roofline, kv_blocks
from poise.cost.term import Termed, held
from poise.cost.terms.introspective_diffusion import IntrospectiveDiffusion
from poise.cost.terms.nanoflow import NanoFlow
from poise.cost.terms.token_weave import TokenWeave
from poise.policies import Policies
from poise.policies.batch.seesaw import Seesaw
from poise.scenario import terms
from poise.scenario.build import Problem, build
from poise.scenario.engine_cost import EngineCost
from poise.scenario.load import load
from poise.scenario.resolve import resolved, write_yaml
from poise.scenario.simulate import simulate
from poise.workload import lognormal, poisson

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
    ("given", "cost"),
    [
        ("{terms: nanoflow}", Termed(Roofline(), (NanoFlow(),))),
        ("{terms: [token_weave], of: measured}", Termed(Measured(), (TokenWeave(),))),
        (
            "{terms: [{nanoflow: {overlap: 1, nano: 3}}, introspective_diffusion], of: {engine: vllm}}",
            Termed(EngineCost("vllm"), (NanoFlow(1, 3), IntrospectiveDiffusion())),
        ),
    ],
)
def test_terms_are_built_and_written_out(tmp_path: Path, given: str, cost: Termed) -> None:
    problem = built(tmp_path, given)
    assert problem.cost == cost
    write_yaml(resolved(problem), tmp_path / "again.yaml")
    again = build(load(tmp_path / "again.yaml"))
    pool = problem.cluster.pools[0]
    for decodes in (1, 64, 1000):
        assert again.cost.build(pool).step(StepShape(decodes)) == cost.build(pool).step(StepShape(decodes))


class Halved:
    """A term that leaves a pool half of its KV blocks."""

    def around(self, inner: Estimator, pool: Pool) -> Estimator:
        return inner

    def held(self, pool: Pool) -> Pool:
        return replace(pool, engine=replace(pool.engine, kv_blocks=kv_blocks(pool) // 2))


def test_a_term_may_say_how_many_blocks_a_pool_keeps() -> None:
    pool = Pool(model("llama-3.1-8b"), device("A10"))
    cost = Termed(Roofline(), (Halved(), NanoFlow()))
    assert kv_blocks(held(cost, pool)) == kv_blocks(pool) // 2
    assert held(Roofline(), pool) is pool
    load = poisson(20, requests=200, prompt_tokens=lognormal(2000, 1), output_tokens=200, seed=1)
    runs = [simulate(Cluster((each,)), load, cost=cost) for each in (pool, held(cost, pool))]
    assert [each.replicas[0].total_blocks for each in runs] == [kv_blocks(pool) // 2] * 2
    assert runs[0].records.ended_at == runs[1].records.ended_at


def test_blocks_that_are_given_stay() -> None:
    pool = Pool(model("llama-3.1-8b"), device("A10"), engine=Engine(kv_blocks=77))
    assert held(Termed(Roofline(), (Halved(),)), pool) is pool


@pytest.mark.parametrize("name", terms.names())
def test_every_term_is_one_file_with_one_class(name: str) -> None:
    assert terms.build((name, {})) == terms.find(name)()
    assert terms.resolved((name, {}))[name] or name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{terms: nanoflw}", r"scenario.yaml:4: cost.terms: .*did you mean nanoflow"),
        ("{terms: [{nanoflow: {overlp: 1}}]}", r"nanoflow: unknown parameter 'overlp'; did you mean overlap"),
        ("{terms: [{nanoflow: {overlap: 2}}]}", r"nanoflow: overlap 2 is no part"),
        ("{terms: [{nanoflow: {overlap: yes}}]}", r"nanoflow.overlap: 'yes' is no number; give one, or nothing"),
        ("{terms: [{energonai: {padding: 1}}]}", r"energonai.padding: 1 is no bool; give a value like False"),
        ("{terms: [{moe_gen: {on_cpu: half}}]}", r"moe_gen.on_cpu: 'half' is no number; give one, or nothing"),
        ("{terms: [{dllm_serve: {refresh: mixt}}]}", r"dllm_serve: refresh 'mixt'; give one of mixed, aligned"),
        ("{terms: []}", r"the list is empty"),
        ("{terms: [nanoflow, token_weave]}", r"cost.terms: terms NanoFlow and TokenWeave both hide the time of links"),
        ("{terms: [nanoflow, {nanoflow: {nano: 3}}]}", r"both hide the time of arithmetic, links, memory; keep one"),
        ("{terms: [seesaw, nanoflow]}", r"Seesaw asks the others for pools of its own; name it last, behind NanoFlow"),
        ("{terms: [{seesaw: {decode: P3}}]}", r"layout P3 does not fit 4 H100.*; give one of "),
        ("{terms: pipe_infer}", r"2: .*pipeline: .*proposals fill the idle stages .* give pipeline: 2 or more"),
        ("{terms: [{pipe_infer: {acceptance: 1}}]}", r"pipe_infer: acceptance 1 is no chance below 1"),
        (
            "{terms: [{diagonal_batching: {segment: 0}}]}",
            r"diagonal_batching: segment 0 .* give a segment of 1",
        ),
        ("{terms: [{hybrid_partition: {tensors: 2-1}}]}", r"tensors 2-1 have 3 devices in 2 stages; a replica has 4"),
        ("{terms: [{hybrid_partition: {tensors: 2+2}}]}", r"hybrid_partition: tensors '2\+2' names no stages"),
        ("{terms: [{seesaw: {host_gb: 0}}]}", r"host_gb, sequences, .* are above 0"),
        ("{terms: [{seesaw: {host_gb: 1e-9}}]}", r"keeps no KV block; give more"),
        ("{terms: nanoflow, of: {engine: triton}}", r"cost.of.engine: 'triton' is not a known engine"),
        ("{terms: nanoflow, of: {terms: token_weave}}", r"cost"),
        ("{terms: kv_runahead, of: {gem_bf16: 1}}", r"gemm_bf16"),
    ],
)
def test_mistakes_point_into_the_file(tmp_path: Path, given: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        built(tmp_path, given)


def test_a_pool_that_a_term_cannot_serve(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    text = TEXT.replace("llama-3.1-70b", "llama-3.1-8b").replace(", tensor: 4", "")
    path.write_text(text.replace("COST", "{terms: kv_runahead}"), encoding="utf-8")
    with pytest.raises(ScenarioError, match="tensor: 2 or more"):
        build(load(path))


POOL = Pool(model("llama-3.1-70b"), device("H100"), replicas=2, tensor=4)
SUITS: dict[str, Pool] = {
    "block_llm": replace(POOL, tensor=8, tenants=(0, 1, 2)),
    "cloudmatrix": Pool(model("qwen3-30b-a3b"), device("H100"), replicas=2, data=4, expert=4),
    "dllm_serve": replace(POOL, engine=Engine(prefix_caching=False)),
    "expert_as_a_service": Pool(model("qwen3-30b-a3b"), device("H100"), replicas=2, data=4, expert=4),
    "moe_gen": Pool(model("mixtral-8x7b"), device("A10"), replicas=2),
    "pipe_infer": replace(POOL, tensor=1, pipeline=4),
}
"""Pools of the terms that cannot serve `POOL`, as it is."""

BATCHERS: dict[str, Policies] = {"seesaw": Policies(batcher=Seesaw())}
"""What the terms want that not every batcher does."""

SLOWER = {"block_llm", "diagonal_batching", "dllm_serve", "expert_as_a_service", "moe_gen", "prompt_graphs", "seesaw"}
"""Terms that buy something else with time."""


@pytest.mark.parametrize("name", terms.names())
def test_a_run_with_every_term_ends_and_repeats_by_single_steps(name: str) -> None:
    """Held batches and single steps cost the same, to the picosecond, also where a step is the larger of lines."""
    pool = SUITS.get(name, POOL)
    cost = Termed(Roofline(), (terms.build((name, {})),))
    requests = poisson(8, requests=120, prompt_tokens=lognormal(1500, 1.0), output_tokens=lognormal(150, 0.6), seed=3)
    if pool.tenants:
        requests = replace(requests, tenant=np.arange(120, dtype="i4") % len(pool.tenants))
    policies = BATCHERS.get(name, Policies())
    fast, slow = (simulate(Cluster((pool,)), requests, policies, cost=cost, one_step=each) for each in (False, True))
    assert fast.records.ended_at == slow.records.ended_at and len(fast.records.ended_at) == 120
    if name in SLOWER:
        return
    bare = simulate(Cluster((pool,)), requests)
    assert sum(fast.records.ended_at) <= sum(bare.records.ended_at)


SERVERS = """\
model: qwen3-30b-a3b
cluster:
  pools:
    - {device: H100, data: 4, replicas: 2, start_s: 5}
  faults:
    - {at_s: 2, kind: device_lost, replica: 0, for_s: 5}
    - {at_s: 4, kind: device_lost, replica: 1, devices: 2, for_s: 1}
workload: {poisson: {rate: 20, requests: 200, prompt_tokens: 500, output_tokens: 50}}
cost: {terms: {expert_as_a_service: {copies: 2}}}
policies: {router: least_tokens, recovery: migrate}
slo: {ttft_s: 1, tpot_s: 0.1}
"""


def test_device_losses_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One server may be lost, both of two copies not: the second replica starts again, and nobody is lost."""
    path = tmp_path / "servers.yaml"
    path.write_text(SERVERS, encoding="utf-8")
    assert main(["simulate", str(path), "--blame", "--json", "-"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["finished"] == 200
    problem = build(load(path))
    run, slow = (
        simulate(
            problem.cluster, problem.traffic.make(0), problem.bundles[0][1], cost=problem.cost, one_step=one_step
        )
        for one_step in (False, True)
    )  # fmt: skip
    assert run.records == slow.records
    assert [(each.kind, each.replica) for each in run.faults] == [("device_lost", 0), ("device_lost", 1), ("join", 1)]


def test_a_scenario_of_variants(tmp_path: Path) -> None:
    """Pools that share a tenant: its requests go to both, the others' to their own."""
    text = """\
model: llama-3.1-8b
cluster:
  pools:
    - {device: H100, tenants: [0, 1]}
    - {device: H100, tenants: [0, 2]}
workload: {poisson: {rate: 20, requests: 90, prompt_tokens: 100, output_tokens: 20}}
cost: {terms: {block_llm: {shared: 0.5}}}
"""
    path = tmp_path / "variants.yaml"
    path.write_text(text, encoding="utf-8")
    problem = build(load(path))
    work = replace(problem.traffic.make(0), tenant=np.arange(90, dtype="i4") % 3)
    run = simulate(problem.cluster, work, problem.bundles[0][1], cost=problem.cost)
    where = [{run.records.replica[row] for row in range(tenant, 90, 3)} for tenant in range(3)]
    assert where == [{0, 1}, {0}, {1}]
