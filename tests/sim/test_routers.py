"""What each router is known for shows in a small world."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from poise.core.records import FINISHED, Run
from poise.core.spec import Belief, Cluster, Engine, Fault, Pool
from poise.policies import Policies
from poise.policies.route.bounded_hash import BoundedHash
from poise.policies.route.cache_aware import CacheAware
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.power_of_two import PowerOfTwo
from poise.policies.route.preble import Preble
from poise.policies.route.random_choice import RandomChoice
from poise.policies.route.session_affinity import SessionAffinity
from poise.scenario.simulate import simulate
from poise.testing.cost import LinearCost
from poise.workload import Workload, lognormal, poisson, sessions, shared_prefixes
from tests.sim.cases import DEVICE, MODEL


class Linear:
    """A cost recipe of round numbers, in which prompts are what takes time."""

    def build(self, pool: Pool) -> LinearCost:
        return LinearCost(step_s=0.005, decode_s=0.0002, prompt_s=1e-4)


def run(
    router: Any, workload: Workload, *, blocks: int = 1000, belief: Belief | None = None, faults: tuple[Fault, ...] = ()
) -> Run:
    pool = Pool(MODEL, DEVICE, replicas=8, engine=Engine(kv_blocks=blocks, token_budget=2048))
    return simulate(
        Cluster((pool,), faults=faults), workload, Policies(router=router), cost=Linear(), belief=belief or Belief()
    )


def wait(run: Run) -> float:
    """Mean time to first token, seconds."""
    records = run.records
    return float(np.mean(np.array(records.first_token_at) - np.array(records.arrived_at))) / 1e12


def hits(run: Run) -> float:
    """Share of prompt tokens that were cached."""
    return sum(run.records.cached_tokens) / sum(run.records.prompt_tokens)


@cache
def plain() -> Workload:
    return poisson(100, requests=1500, prompt_tokens=lognormal(500, 1.0), output_tokens=lognormal(30, 0.5), seed=2)


@cache
def prefixes() -> Workload:
    """40 prefixes of 1500 tokens: a replica holds ten of them at most."""
    base = poisson(60, requests=1500, prompt_tokens=lognormal(200, 0.5), output_tokens=lognormal(20, 0.5), seed=3)
    return shared_prefixes(base, groups=40, prefix_tokens=1500, zipf=0.5, seed=3)


@cache
def chats() -> Workload:
    base = poisson(12, requests=250, prompt_tokens=lognormal(300, 0.5), output_tokens=lognormal(60, 0.5), seed=4)
    return sessions(base, turns=5, think_s=2.0, seed=4)


def test_a_second_choice_gains_most_of_what_looking_at_all_does() -> None:
    one, two, every = (wait(run(router, plain())) for router in (RandomChoice(), PowerOfTwo(), LeastRequests()))
    assert every < two < one
    assert two - every < (one - every) / 2


def test_on_old_reports_two_choices_herd_less_than_the_least_of_all() -> None:
    old = Belief(2.0, 0.05, in_flight=False)
    two, every = (wait(run(router, plain(), belief=old)) for router in (PowerOfTwo(), LeastRequests()))
    assert two < every


@pytest.mark.parametrize("router", [CacheAware, Preble, BoundedHash])
def test_who_looks_at_prefixes_finds_them(router: Callable[[], Any]) -> None:
    blind, seeing = run(LeastRequests(), prefixes()), run(router(), prefixes())
    assert hits(seeing) > 1.3 * hits(blind)
    assert wait(seeing) < wait(blind)


def test_sessions_find_their_turns_where_they_left_them() -> None:
    blind, sticky = run(LeastRequests(), chats()), run(SessionAffinity(), chats())
    assert hits(sticky) > 1.5 * hits(blind)
    places: dict[int, set[int]] = {}
    for session, replica in zip(chats().session.tolist(), sticky.records.replica, strict=True):
        places.setdefault(session, set()).add(replica)
    assert all(len(replicas) == 1 for replicas in places.values())


def test_only_the_sessions_of_a_lost_replica_move() -> None:
    whole, torn = run(SessionAffinity(), chats()), run(SessionAffinity(), chats(), faults=(Fault(8.0, "lost", 3),))
    assert set(torn.records.status) == {FINISHED}
    moved = {
        before for before, after in zip(whole.records.replica, torn.records.replica, strict=True) if before != after
    }
    assert moved == {3}
    assert len({torn.records.replica[i] for i, r in enumerate(whole.records.replica) if r == 3}) > 4


def test_naive_affinity_collapses_where_all_prompts_begin_alike_and_a_bound_does_not() -> None:
    """As in Mooncake's conversations: one first block for everybody."""
    alike = shared_prefixes(plain(), groups=1, prefix_tokens=300, seed=1)
    naive = run(SessionAffinity(prefix_tokens=256), alike)
    assert len(set(naive.records.replica)) == 1
    bounded = run(BoundedHash(prefix_tokens=256), alike)
    assert len(set(bounded.records.replica)) > 5
    assert wait(bounded) < wait(naive) / 20
    for router in (CacheAware, Preble):
        assert wait(run(router(), alike)) < wait(naive) / 20
