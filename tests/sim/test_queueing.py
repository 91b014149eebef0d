"""One server meets the formulas of queueing theory: M/D/1, M/G/1 with geometric service (M/M/1 in steps), Little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poise.core.control.control import Control
from poise.core.engine.replica import Replica
from poise.core.records.records import FINISHED, Run
from poise.core.spec import Belief, Cluster, Engine, Pool, ReplicaSpec
from poise.core.units import SECOND
from poise.policies import Policies
from poise.policies.route.round_robin import RoundRobin
from poise.sim.terms import Saving
from poise.sim.world import World
from poise.testing.cost import LinearCost
from poise.workload.table import Workload
from tests.sim.cases import DEVICE, MODEL

STEP = 0.001


def serve(outputs: Any, rate: float, *, sequences: int = 1, sample_s: float = 0.0, seed: int = 5) -> Run:
    """Poisson arrivals at one replica whose every step takes 1 ms: a request's service is its output in steps."""
    rows = len(outputs)
    arrival = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, rows) * SECOND).astype("i8")
    workload = Workload(arrival, np.ones(rows, "i4"), np.asarray(outputs, "i4"))
    engine = Engine(token_budget=4096, max_sequences=sequences, prefix_caching=False)
    replica = Replica(engine, LinearCost(step_s=STEP), 10**6, Policies())
    cluster = Cluster((Pool(MODEL, DEVICE, engine=engine),))
    control = Control(Policies(router=RoundRobin()), [ReplicaSpec()], belief=Belief())
    return World(cluster, workload, control, [replica], [10**7], saving=Saving(sample_s=sample_s)).simulate()


def waits(run: Run, outputs: Any) -> Any:
    """Seconds from arrival to the start of service."""
    ended, arrived = np.array(run.records.ended_at), np.array(run.records.arrived_at)
    return (ended - arrived) / SECOND - np.asarray(outputs) * STEP


@pytest.mark.parametrize("load", [0.5, pytest.param(0.8, marks=pytest.mark.slow)])
def test_m_d_1(load: float) -> None:
    """Constant service: mean wait = ρS / 2(1−ρ)."""
    outputs = np.full(60_000, 100)
    service = 100 * STEP
    run = serve(outputs, load / service)
    assert np.mean(waits(run, outputs)) == pytest.approx(load * service / (2 * (1 - load)), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_m_m_1(load: float) -> None:
    """Geometric service, M/M/1's in steps: Pollaczek and Khinchine, mean wait = λE[S²] / 2(1−ρ); P(no wait) = 1−ρ."""
    mean = 100
    outputs = np.random.default_rng(9).geometric(1 / mean, 120_000)
    rate = load / (mean * STEP)
    second_moment = (2 - 1 / mean) * mean**2 * STEP**2
    run = serve(outputs, rate)
    waited = waits(run, outputs)
    assert np.mean(waited) == pytest.approx(rate * second_moment / (2 * (1 - load)), rel=0.08)
    assert np.mean(waited < 1e-9) == pytest.approx(1 - load, rel=0.03)


def test_little() -> None:
    """Requests in the system, averaged over time, equal arrival rate times mean stay."""
    outputs = np.random.default_rng(2).integers(1, 200, 20_000)
    run = serve(outputs, 12.0, sequences=4, sample_s=0.05)
    records = run.records
    stay = (np.array(records.ended_at) - np.array(records.arrived_at)) / SECOND
    duration = run.ended_at / SECOND
    inside = np.mean([waiting + running for _, _, waiting, running, _ in run.samples])
    assert inside == pytest.approx(stay.sum() / duration, rel=0.02)
    assert list(records.status).count(FINISHED) == len(outputs)


def test_busy_time_is_work() -> None:
    """A server that takes one request at a time is busy exactly for the sum of their service."""
    outputs = np.random.default_rng(2).integers(1, 200, 2_000)
    run = serve(outputs, 5.0)
    assert run.replicas[0].busy == int(outputs.sum()) * SECOND // 1000
