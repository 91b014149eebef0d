"""Adapters in scenarios: what does not go together is said, and affinity saves loads and waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.catalogue import device, model
from poise.cli import main
from poise.core.errors import UserError
from poise.core.records.records import Run
from poise.core.spec import Cluster, Engine, Pool
from poise.policies import Policies
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.lora_affinity import LoraAffinity
from poise.scenario.build import build
from poise.scenario.idle import check_idle
from poise.scenario.load import load
from poise.scenario.run import run
from poise.scenario.simulate import simulate
from poise.workload import adapters, poisson

BASE = """model: llama-3.1-8b
cluster: {pools: [{device: H100, replicas: 2}]}
engine: {max_loras: 2, max_cpu_loras: 9, max_lora_rank: 64, lora_disk_gb_s: 2}
workload:
  poisson: {rate: 20, requests: 60, prompt_tokens: 100, output_tokens: 20}
  adapters: {count: 9, rank: [8, 64]}
"""


def mistake(tmp_path: Path, old: str, new: str) -> str:
    assert old in BASE
    file = tmp_path / "s.yaml"
    file.write_text(BASE.replace(old, new))
    with pytest.raises(UserError) as error:
        problem = build(load(file))
        check_idle(problem)
        run(problem)
    return str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_cpu_loras: 9", "max_cpu_loras: 1", "engine.max_cpu_loras 1 of pool 'meta-llama/Llama-3.1-8B' is below"),
        ("max_lora_rank: 64", "max_lora_rank: 16", "rank 64 exceeds engine.max_lora_rank 16"),
        ("model: ", "policies: {batcher: laps}\nmodel: ", "policies.batcher: Laps keeps its own order"),
        (
            "engine: {max_loras: 2, ",
            "policies: {cache: chameleon}\nengine: {prefix_caching: false, ",
            "policies.cache: Chameleon chooses which adapter leaves the device",
        ),
        ("  adapters: {count: 9, rank: [8, 64]}\n", "", ":3: engine.max_loras: no request names an adapter"),
        ("rank: [8, 64]", "rank: tall", "'tall' is not a rank; give a whole number, as in 16"),
        ("count: 9, ", "", "workload.adapters: count is missing, and the requests name no adapters"),
    ],
)
def test_what_does_not_go_together(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in mistake(tmp_path, old, new)


def test_a_scenario_with_adapters_runs(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(BASE + "policies: {router: [lora_affinity, caraserve], cache: chameleon}\n")
    assert main(["compare", str(file), "--quiet"]) == 0


def simulated(router: LoraAffinity | LeastRequests | None, slots: int, **given: int) -> Run:
    engine = Engine(max_loras=slots, max_cpu_loras=40 if slots else 0)
    pool = Pool(model("llama-3.1-8b"), device("H100"), replicas=4, engine=engine)
    base = poisson(24.0, requests=1500, prompt_tokens=300, output_tokens=100)
    workload = adapters(base, count=40, zipf=0.8) if not given else base
    return simulate(Cluster((pool,)), workload, Policies(router=router or LeastRequests()))


def waited(run: Run) -> int:
    """Picoseconds until the first tokens of all requests."""
    return sum(run.records.first_token_at) - sum(run.records.arrived_at)


def test_affinity_saves_waits_where_slots_are_few() -> None:
    near, far = simulated(LoraAffinity(lora=3.0), 4), simulated(LeastRequests(), 4)
    assert waited(near) < 0.7 * waited(far)


def test_slots_alone_change_nothing_for_requests_without_adapters() -> None:
    """But for the room that they take, which is not needed here."""
    with_slots, without = simulated(None, 4, none=1), simulated(None, 0, none=1)
    assert with_slots.records.ended_at == without.records.ended_at


def test_adapters_cost_nothing_without_slots() -> None:
    assert simulated(None, 0).records.ended_at == simulated(None, 0, none=1).records.ended_at
