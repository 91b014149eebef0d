"""Every serving trace runs end to end under every router, and balances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poise.catalogue import device, model
from poise.core.records.records import FINISHED, REJECTED
from poise.core.spec import Cluster, Fault, Pool, Role
from poise.core.units import SECOND
from poise.policies import Policies
from poise.policies.find import build, names
from poise.scenario.simulate import simulate
from poise.sim.terms import Saving, Watching
from poise.testing.invariants import check_blame, check_world
from poise.workload import Workload, poisson, read, read_clients, recorded_sessions, servegen
from tests.depth import DEEP, examples

TRACES = (
    "azure_llm_2023/conv.csv.gz",
    "azure_llm_2023/code.csv.gz",
    "mooncake/conversation_trace.jsonl.gz",
    "mooncake/synthetic_trace.jsonl.gz",
)

WHOLE = ("least_requests", "prefix_cache")
"""The routers under which the traces run to their end where runs may be long; the others see the beginning."""

HOLDING = ("pull",)
"""The routers that keep requests at the gateway; the others send each as it arrives."""

SESSIONS = (
    ("agent_swe_sessions/events.csv.gz", None),
    ("agent_prefix_traces/miniswe.jsonl.gz", 2.0),
    ("agent_prefix_traces/magagent.jsonl.gz", {"exponential": 3.0}),
)
"""Recordings of sessions, and the think times where they have none."""


def cluster(replicas: int) -> Cluster:
    return Cluster((Pool(model("llama-3.1-8b"), device("H100"), replicas=replicas),))


def balances(workload: Workload, router: str) -> None:
    """Every request ends once and not before it came, all its time is charged, every prompt token computed or found."""
    run = simulate(cluster(12), workload, Policies(router=build("router", router)), saving=Saving(blame=True))
    check_blame(run)
    records = run.records
    status = np.array(records.status)
    assert run.offered == len(workload)
    assert set(status) <= {FINISHED, REJECTED}
    assert (status == REJECTED).sum() == sum(run.refusals.values())
    done = status == FINISHED
    assert done.mean() > 0.99
    assert (np.array(records.output_tokens)[done] == workload.output[done]).all()
    prompt, cached = np.array(records.prompt_tokens)[done], np.array(records.cached_tokens)[done]
    computed = sum(stats.prompt_tokens for stats in run.replicas)
    again = sum(records.preemptions)
    assert computed >= (prompt - cached).sum()
    assert again or computed == (prompt - cached).sum()
    first, arrived, ended = (
        np.array(column)[done] for column in (records.first_token_at, records.arrived_at, records.ended_at)
    )
    assert (arrived <= first).all() and (first <= ended).all()
    sent = np.array(records.dispatched_at)[done]
    assert (sent >= arrived).all() and (router in HOLDING or (sent == arrived).all())


@pytest.mark.deep
@pytest.mark.parametrize("router", names("router"))
@pytest.mark.parametrize("trace", TRACES)
def test_a_trace_ends_and_balances(trace: str, router: str, data_dir: Path) -> None:
    balances(read(data_dir / trace, limit=None if DEEP and router in WHOLE else examples(2000)), router)


@pytest.mark.parametrize(("trace", "think_s"), SESSIONS)
def test_recorded_sessions_end_and_balance(trace: str, think_s: Any, data_dir: Path) -> None:
    recorded = read(data_dir / trace, skip_bad=True)
    balances(recorded_sessions(poisson(0.3, requests=40), recorded, think_s=think_s), "prefix_cache")


@pytest.mark.parametrize("family", ["m-large", "m-small", "deepseek-r1", "mm-image"])
def test_clients_end_and_balance(family: str, data_dir: Path) -> None:
    clients = read_clients(data_dir / f"servegen_alibaba/{family}_arrivals.parquet")
    balances(servegen(clients, begin_s=36_000, duration_s=600, rate=5.0), "least_tokens")


@pytest.mark.parametrize(("trace", "think_s"), SESSIONS)
def test_recorded_sessions_equal_the_reference(trace: str, think_s: Any, data_dir: Path) -> None:
    recorded = read(data_dir / trace, skip_bad=True, limit=300)
    workload = recorded_sessions(poisson(0.5, requests=4), recorded, think_s=think_s, seed=1)
    policies = Policies(router=build("router", "prefix_cache"))
    fast = simulate(
        cluster(2), workload, policies, saving=Saving(blame=True), watching=Watching(after_event=check_world)
    )
    slow = simulate(cluster(2), workload, policies, one_step=True, saving=Saving(blame=True))
    assert fast.records.ended_at == slow.records.ended_at
    assert fast.blame == slow.blame


@pytest.mark.parametrize("trace", TRACES)
def test_a_trace_balances_after_every_event_and_equals_the_reference(trace: str, data_dir: Path) -> None:
    workload = read(data_dir / trace, limit=150)
    policies = Policies(router=build("router", "prefix_cache"))
    fast = simulate(
        cluster(2), workload, policies, saving=Saving(blame=True), watching=Watching(after_event=check_world)
    )
    slow = simulate(cluster(2), workload, policies, one_step=True, saving=Saving(blame=True))
    assert fast.records.ended_at == slow.records.ended_at
    assert fast.blame == slow.blame
    assert fast.records.first_token_at == slow.records.first_token_at


@pytest.mark.parametrize("roles", [("mixed",) * 4, ("prefill", "prefill", "decode", "decode")])
@pytest.mark.parametrize("trace", TRACES)
def test_blame_of_a_trace_through_losses(trace: str, roles: tuple[Role, ...], data_dir: Path) -> None:
    """Replicas go and come under a load that moves: every picosecond is charged, as in the reference."""
    workload = read(data_dir / trace, limit=400)
    span = float(workload.arrival[-1]) / SECOND
    faults = (Fault(0.3 * span, "lost", 0), Fault(0.5 * span, "reclaimed", 3, 2.0), Fault(0.6 * span, "join", 4))
    pools = tuple(Pool(model("llama-3.1-8b"), device("H100"), role=role) for role in (*roles, roles[0]))
    policies = Policies(router=build("router", "llumnix"))
    runs = [
        simulate(Cluster(pools, faults=faults), workload, policies, one_step=one_step, saving=Saving(blame=True))
        for one_step in (False, True)
    ]
    check_blame(runs[0])
    assert runs[0].blame == runs[1].blame
