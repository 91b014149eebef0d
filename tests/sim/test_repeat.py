"""The same seed gives the same bytes in any process; a recording replays to the same actions; belief has its price."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poise.core.action import Dispatch, Refuse
from poise.core.errors import TraceError
from poise.core.records.records import UNFINISHED
from poise.core.records.trace import Trace, replay
from poise.core.spec import Belief, Cluster, Engine, Fault, Pool
from poise.cost import Roofline
from poise.policies import Policies
from poise.policies.route.least_tokens import LeastTokens
from poise.scenario.simulate import build_world, simulate
from poise.sim.terms import Saving, Watching
from poise.testing.cost import LinearCost
from poise.testing.invariants import check_world
from poise.workload import Workload, lognormal, poisson, shared_prefixes
from tests.sim.cases import DEVICE, MODEL, ROUTERS


class Linear:
    """A cost recipe of round numbers."""

    def build(self, pool: Pool) -> LinearCost:
        return LinearCost(step_s=0.01, decode_s=0.0005, prompt_s=5e-5, kv_s=1e-7)


def cluster(replicas: int = 4) -> Cluster:
    return Cluster((Pool(MODEL, DEVICE, replicas=replicas, engine=Engine(kv_blocks=2000, token_budget=2048)),))


def traffic(rate: float = 20.0, requests: int = 300) -> Workload:
    base = poisson(rate, requests=requests, prompt_tokens=lognormal(400, 1.0), output_tokens=lognormal(60, 0.8), seed=4)
    return shared_prefixes(base, groups=6, prefix_tokens=200, seed=4)


SCRIPT = """
import hashlib
from tests.sim.cases import ROUTERS
from tests.sim.test_repeat import Linear, cluster, traffic
from poise.core.records.trace import Trace
from poise.policies import Policies
from poise.scenario.simulate import simulate
from poise.sim.terms import Saving
for router in ROUTERS:
    trace = Trace()
    simulate(cluster(), traffic(), Policies(router=router()), cost=Linear(), seed=11, saving=Saving(trace=trace))
    print(router.__name__, hashlib.sha256("\\n".join(trace.lines).encode()).hexdigest(), len(trace.lines))
"""


def test_same_bytes_whatever_the_hash_seed() -> None:
    root = Path(__file__).resolve().parents[2]
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    lines = [line.split() for line in outputs[0].splitlines()]
    assert len(lines) == len(ROUTERS) and all(int(count) > 600 for _, _, count in lines)


@pytest.mark.parametrize("router", ROUTERS)
def test_a_recording_replays_to_the_same_actions(router: Callable[[], Any], tmp_path: Path) -> None:
    policies = Policies(router=router())
    with (tmp_path / "run.jsonl").open("w") as stream:
        trace = Trace({"seed": 3}, stream)
        world = build_world(cluster(), traffic(), policies, Linear(), Belief(), seed=3, saving=Saving(trace=trace))
        fresh = world.control.clone()
        world.simulate()
    recorded = Trace.load(tmp_path / "run.jsonl")
    actions = list(recorded.actions)
    assert sum(isinstance(action, Dispatch | Refuse) for action in actions) == 300
    assert replay(recorded.events, fresh) == actions


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text('{"schema": 99}\n')
    with pytest.raises(TraceError, match="schema 99"):
        Trace.load(path)


@pytest.mark.parametrize("in_flight", [True, False])
def test_old_reports_cost_waiting_time(in_flight: bool) -> None:
    """The same router on reports of 0, 0.1, 1 and 5 s: with dispatches in flight unseen, all flock to one replica."""
    ttft: list[float] = []
    for period in (0.0, 0.1, 1.0, 5.0):
        belief = Belief(period, 0.0 if not period else 0.05, in_flight)
        run = simulate(cluster(8), traffic(60.0, 1500), Policies(router=LeastTokens()), cost=Linear(), belief=belief)
        records = run.records
        pairs = zip(records.first_token_at, records.arrived_at, strict=True)
        ttft.append(sum(first - arrived for first, arrived in pairs) / len(records.status) / 1e12)
    if in_flight:
        assert ttft[3] < 3 * ttft[0]  # what it sent itself carries it over
    else:
        assert ttft[0] < ttft[2] < ttft[3]
        assert ttft[3] > 3 * ttft[0]


def test_ctrl_c_keeps_what_was_done() -> None:
    def stop(done: int, rows: int) -> None:
        if done > 100:
            raise KeyboardInterrupt

    run = simulate(cluster(), traffic(200.0, 20_000), cost=Linear(), watching=Watching(progress=stop))
    assert run.interrupted
    assert 100 < list(run.records.status).count(0) < 20_000
    assert run.offered < 20_000


def test_roofline_is_the_default_cost() -> None:
    one = simulate(cluster(), traffic(requests=50))
    other = simulate(cluster(), traffic(requests=50), cost=Roofline())
    assert one.records.ended_at == other.records.ended_at


def test_a_client_that_leaves_as_it_is_refused_ends_once() -> None:
    """With perfect reports the held are asked again just before a time-out is told: the refusal comes too late."""
    lost = (Fault(0.0, "lost", 0),)
    alone = Cluster((Pool(MODEL, DEVICE, engine=Engine(kv_blocks=2, token_budget=256)),), faults=lost)
    prompts = Workload(np.zeros(2, "i8"), np.array([8, 40], "i4"), np.ones(2, "i4"), timeout=np.full(2, 10**9, "i8"))
    policies, belief = Policies(router=LeastTokens()), Belief(0.0, 0.0)
    run = simulate(alone, prompts, policies, cost=Linear(), belief=belief, watching=Watching(after_event=check_world))
    assert run.offered == 2 and UNFINISHED not in run.records.status
