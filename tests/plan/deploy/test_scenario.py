"""The scenario of a plan simulates it: the same cluster, and the same records to the picosecond."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from poise.catalogue import read_config
from poise.core.errors import UserError
from poise.core.spec import Belief, Cluster, Engine, Fault, Lane, Slo
from poise.cost import Fitted, Measured, Roofline
from poise.plan.deploy import Setting
from poise.plan.deploy.scenario import scenario
from poise.plan.fleet import Fleet
from poise.scenario.build import Problem, build
from poise.scenario.load import load
from poise.scenario.simulate import simulate
from poise.workload import Workload
from tests.plan.deploy.fleets import a_pool, a_setting, fleets


def problem(fleet: Fleet, setting: Setting, folder: Path) -> Problem:
    file = folder / "scenario.yaml"
    file.write_text(scenario(fleet, setting), encoding="utf-8")
    return build(load(file))


def records(fleet: Fleet, setting: Setting, workload: Workload, seed: int) -> dict[str, Any]:
    run = simulate(
        fleet.cluster(), workload, fleet.policies(), cost=setting.cost, belief=setting.belief, seed=seed
    )  # fmt: skip
    return {each.name: getattr(run.records, each.name) for each in fields(run.records)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plan")


@given(fleet=fleets())
def test_every_fleet_is_read_back(folder: Path, fleet: Fleet) -> None:
    read = problem(fleet, a_setting(), folder)
    assert versionless(read.cluster) == versionless(fleet.cluster())
    assert type(read.bundles[0][1].batcher) is type(fleet.policies().batcher)


def versionless(cluster: Cluster) -> Cluster:
    """Without versions of engines, which decide nothing and stand in no scenario."""
    pools = (replace(pool, engine=replace(pool.engine, version="")) for pool in cluster.pools)
    return replace(cluster, pools=tuple(pools))


FLEETS = {
    "capped": Fleet((a_pool(replicas=2, power_cap_w=350.0),)),
    "equal": Fleet((a_pool(replicas=2, weights="fp8", price_per_hour=2.5),), "prefix_cache"),
    "mixed": Fleet(
        (a_pool(replicas=2, tensor=2), replace(a_pool(kind="L40S", engine=Engine(max_sequences=8)), name="small"))
    ),
    "apart": Fleet((a_pool(role="prefill"), a_pool(kind="H200", role="decode", kv="fp8")), "pd_pair"),
    "prompts first": Fleet((a_pool(engine=Engine("SGLang", max_sequences=100)),)),
    "ranks": Fleet((a_pool("qwen3-30b-a3b", data=4, expert=4, start_s=1.0),)),
}


@pytest.mark.parametrize("name", FLEETS)
@pytest.mark.parametrize(
    "setting",
    [
        a_setting(),
        a_setting(
            cost=Roofline(gemm_bf16=0.61), belief=Belief(period_s=0.3, delay_s=0.01, prefix="reported"),
            workload={"poisson": {"rate": 9.0, "requests": 40}, "shared_prefixes": {"groups": 3, "prefix_tokens": 300}},
        ),
        a_setting(cost=Measured(cpu_step_s=0.001), seeds=(5, 3), warmup_s=1.0, slo=Slo(ttft_s=1.0)),
    ],
    ids=["defaults", "changed", "measured"],
)  # fmt: skip
def test_the_same_records_to_the_picosecond(name: str, setting: Setting, tmp_path: Path) -> None:
    fleet = FLEETS[name]
    read = problem(fleet, setting, tmp_path)
    assert (read.slo, read.belief, read.cost) == (setting.slo, setting.belief, setting.cost)
    assert (tuple(read.seeds), read.warmup_s) == (setting.seeds, setting.warmup_s)
    ((_, policies),) = read.bundles
    for seed in read.seeds:
        workload = read.traffic.make(seed)
        run = simulate(read.cluster, workload, policies, cost=read.cost, belief=read.belief, seed=seed)
        wanted = records(fleet, setting, read.traffic.make(seed), seed)
        assert {each: getattr(run.records, each) for each in wanted} == wanted
        assert max(run.records.ended_at) > 0


def test_what_else_a_cluster_has_is_written(tmp_path: Path) -> None:
    class Faulty(Fleet):
        def cluster(self) -> Any:
            return replace(
                Fleet(self.pools).cluster(),
                link_bw=7.7e9,
                link_latency_s=2e-6,
                faults=(Fault(1.0, "reclaimed", 0, 0.5),),
            )

    lanes = (Lane("p", decode=False, share=0.4), Lane("d", prefill=False, share=0.6))
    odd = replace(a_pool().device, name="odd", bf16_flops=123.456e12 / 3, memory_bw=1e12 / 7, price_per_hour=0.0)
    plain = replace(odd, vendor="", price_basis="", source="the scenario")
    pools = (replace(a_pool(engine=Engine(host_kv_bytes=3_000_000_001, lanes=lanes)), device=plain, link_bw=3.1e9),)
    read = problem(Faulty(pools), a_setting(), tmp_path).cluster
    assert read == Faulty(pools).cluster()


def test_a_model_of_a_config_is_named_by_it(tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 99, "intermediate_size": 128, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
    }  # fmt: skip
    own = tmp_path / "my model"
    own.mkdir()
    (own / "config.json").write_text(json.dumps(config))
    model = read_config(own / "config.json")
    fleet = Fleet((replace(a_pool(), model=model),))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert problem(fleet, a_setting(), elsewhere).cluster.pools[0].model == model


def test_a_fitted_cost_is_named_by_its_file() -> None:
    fitted = a_setting(cost=Fitted(0.01, 1e-5))
    with pytest.raises(UserError, match="cost was fitted, and no file is named"):
        scenario(FLEETS["equal"], fitted)
    assert "fitted: /fits/day.json" in scenario(FLEETS["equal"], replace(fitted, cost_file="/fits/day.json"))


def test_a_model_that_nothing_describes_is_refused() -> None:
    strange = replace(a_pool().model, layers=3)
    with pytest.raises(UserError, match="is not built in and was read from no config"):
        scenario(Fleet((replace(a_pool(), model=strange),)), a_setting())
