"""Systems that keep weights or logits elsewhere, among everything else: routers, batchers, queues and faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poise.catalogue import device, model
from poise.cli import main
from poise.core.spec import Cluster, Engine, Fault, Pool
from poise.cost import Roofline
from poise.cost.term import Term, Termed
from poise.cost.terms.dllm_serve import DllmServe
from poise.cost.terms.moe_gen import MoeGen
from poise.policies import Policies
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.layered_prefill import LayeredPrefill
from poise.policies.batch.static_batch import StaticBatch
from poise.policies.route.cache_aware import CacheAware
from poise.policies.route.least_requests import LeastRequests
from poise.scenario.simulate import simulate
from poise.sim.terms import Watching
from poise.testing.invariants import check_world
from poise.workload import lognormal, poisson, shared_prefixes

FAULTS = (Fault(20.0, "slow", 0, factor=2.0, for_s=30.0), Fault(40.0, "lost", 1), Fault(60.0, "join", 1))

CASES: dict[str, tuple[Term, Pool]] = {
    "moe_gen": (MoeGen(), Pool(model("mixtral-8x7b"), device("A10"), replicas=2, engine=Engine(max_sequences=64))),
    "dllm_serve": (
        DllmServe(output=30),
        Pool(model("llama-3-8b"), device("L40S"), replicas=2, engine=Engine(max_sequences=40, prefix_caching=False)),
    ),
    "moe_gen whole": (MoeGen(whole=True), Pool(model("mixtral-8x7b"), device("A10"), replicas=2)),
}


@pytest.mark.parametrize("router", [CacheAware, LeastRequests])
@pytest.mark.parametrize("batcher", [Chunked, LayeredPrefill, StaticBatch])
@pytest.mark.parametrize("case", CASES)
def test_nothing_is_lost_and_single_steps_agree(case: str, router: type, batcher: type) -> None:
    """A replica is slow, one is lost in the middle and comes back: every request ends, to the picosecond the same."""
    term, pool = CASES[case]
    some = poisson(1, requests=60, prompt_tokens=lognormal(400, 0.8), output_tokens=lognormal(30, 0.6), seed=4)
    load = shared_prefixes(some, groups=5, prefix_tokens=300)
    runs = [
        simulate(
            Cluster((pool,), faults=FAULTS),
            load,
            Policies(router=router(), batcher=batcher()),
            cost=Termed(Roofline(), (term,)),
            one_step=one_step,
            watching=Watching(after_event=None if one_step else check_world),
        )
        for one_step in (False, True)
    ]
    fast, slow = (run.records for run in runs)
    assert fast.ended_at == slow.ended_at and fast.first_token_at == slow.first_token_at
    assert all(at > 40e12 for at in fast.ended_at[45:]) and len(fast.ended_at) == 60
    assert fast.status == slow.status == fast.status[:1] * 60


TEXT = """\
model: mixtral-8x7b
cluster:
  pools: [{device: A10, replicas: 2, engine: {max_sequences: 2048, token_budget: 32768}}]
  faults: [{at_s: 30, kind: lost, replica: 1}, {at_s: 90, kind: join, replica: 1}]
workload:
  poisson: {rate: 4, requests: 400, prompt_tokens: {lognormal: {mean: 300, cv: 1}}, output_tokens: 40}
  shared_prefixes: {groups: 10, prefix_tokens: 200}
policies: {router: cache_aware, queue: shortest_prompt}
cost: {terms: {moe_gen: {host_gb: 256}}}
"""


def test_a_scenario_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Offloaded experts under prefix routing, a queue policy and a fault, from a file."""
    path, out = tmp_path / "scenario.yaml", tmp_path / "out"
    path.write_text(TEXT, encoding="utf-8")
    assert main(["simulate", str(path), "--out", str(out), "--quiet"]) == 0, capsys.readouterr().err
    assert "host_gb: 256" in (out / "scenario.resolved.yaml").read_text(encoding="utf-8")
    assert json.loads((out / "result.json").read_text(encoding="utf-8"))["finished"] == 400
