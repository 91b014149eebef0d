"""What each router is known for shows in a small world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from poise.core.records.records import FINISHED, Run
from poise.core.spec import Belief, Cluster, Engine, Fault, Pool
from poise.policies import Policies
from poise.policies.route.bounded_hash import BoundedHash
from poise.policies.route.cache_aware import CacheAware
from poise.policies.route.dualmap import DualMap
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.min_ttft import MinTtft
from poise.policies.route.pd_pair import PdPair
from poise.policies.route.power_of_two import PowerOfTwo
from poise.policies.route.preble import Preble
from poise.policies.route.pull import Pull
from poise.policies.route.random_choice import RandomChoice
from poise.policies.route.round_robin import RoundRobin
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


@pytest.mark.parametrize("router", [CacheAware, Preble, BoundedHash, MinTtft, DualMap])
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
    for router in (CacheAware, Preble, MinTtft, DualMap):
        assert wait(run(router(), alike)) < wait(naive) / 20


def in_time(run: Run, slo_s: float) -> float:
    """Share of requests with a first token within the SLO."""
    first, arrived = np.array(run.records.first_token_at), np.array(run.records.arrived_at)
    return float(np.mean((first >= 0) & (first - arrived <= slo_s * 1e12)))


def test_two_candidates_stand_old_reports_on_which_a_choice_of_all_herds() -> None:
    """DualMap (arXiv 2602.06502): its advantage over the least predicted TTFT is one of stale state."""
    fresh, old = Belief(), Belief(2.0, 0.05, in_flight=False)
    assert wait(run(MinTtft(), plain(), belief=fresh)) < wait(run(DualMap(), plain(), belief=fresh))
    assert wait(run(DualMap(), plain(), belief=old)) < wait(run(MinTtft(), plain(), belief=old)) / 2


def test_moving_who_waits_relieves_hot_pairs() -> None:
    """Zipf-hot prefixes beyond what their pairs can do within the SLO: mean share over three draws of the load."""
    shares: dict[bool, list[float]] = {True: [], False: []}
    for seed in (3, 4, 5):
        base = poisson(
            130, requests=3000, prompt_tokens=lognormal(200, 1.2), output_tokens=lognormal(20, 0.5), seed=seed
        )
        hot = shared_prefixes(base, groups=40, prefix_tokens=1500, zipf=1.0, seed=seed)
        for moving, found in shares.items():
            router = DualMap(ttft_s=0.3, rebalancing=moving, window=200)
            outcome = run(router, hot, belief=Belief(0.1, 0.01))
            assert bool(sum(outcome.records.migrations)) == moving
            found.append(in_time(outcome, 0.3))
    assert np.mean(shares[True]) > np.mean(shares[False]) + 0.01


class OneByOne:
    """A cost recipe of a second for 1,000 prompt tokens."""

    def build(self, pool: Pool) -> LinearCost:
        return LinearCost(step_s=0.0, decode_s=0.001, prompt_s=1e-3)


def skewed(load: float, router: Any, age_s: float = 0.0) -> float:
    """Share in time of 6 s: eight replicas of one slot, one prompt in ten takes 8 s, the others 0.2 s or 1 s."""
    rng = np.random.default_rng(7)
    kind = rng.random(1500)
    prompt = np.where(kind < 0.1, 8000, np.where(kind < 0.55, 200, 1000)).astype("i4")
    arrival = np.cumsum(rng.exponential(1.34 / 8 / load, 1500) * 1e12).astype("i8")
    pool = Pool(MODEL, DEVICE, replicas=8, engine=Engine(kv_blocks=10_000, token_budget=16_384, max_sequences=1))
    workload, belief = Workload(arrival, prompt, np.ones(1500, "i4")), Belief(age_s, 0.0, in_flight=False)
    outcome = simulate(Cluster((pool,)), workload, Policies(router=router), cost=OneByOne(), belief=belief)
    return in_time(outcome, 6.0)


@pytest.mark.parametrize("load", [0.6, 0.85, 1.0, 1.2])
def test_pulling_into_free_slots_beats_pushing_by_count_at_every_load_and_age(load: float) -> None:
    """P/D-Serve (arXiv 2408.08147): the gap widens with the age of reports and is there at age 0."""
    pulled = [skewed(load, Pull(ttft_s=6.0), age_s) for age_s in (0.0, 5.0)]
    assert pulled[0] == pulled[1]  # it reads no reports
    fresh, old = skewed(load, LeastRequests()), skewed(load, LeastRequests(), 5.0)
    assert pulled[0] > fresh + 0.02 and fresh > old
    assert pulled[0] > 0.9 > skewed(load, RoundRobin()) + 0.1  # all but those who take 8 s themselves


def test_it_is_the_early_stop_that_saves_an_overload() -> None:
    waiting, stopping = skewed(1.2, Pull()), skewed(1.2, Pull(ttft_s=6.0))
    assert waiting < 0.2 and stopping > 0.9
    assert skewed(0.85, Pull()) > skewed(0.85, LeastRequests()) + 0.05  # below it the free slot alone does much


def test_pairs_with_a_fast_way_between_them_deliver_sooner() -> None:
    """Two of four prefill replicas have a link ten times as slow; AIBrix's scores alone do not see it."""
    slow = replace(DEVICE, scaleout_bw=DEVICE.scaleout_bw / 10)
    engine = Engine(kv_blocks=1000, token_budget=2048)
    pools = (
        Pool(MODEL, slow, replicas=2, role="prefill", engine=engine),
        Pool(MODEL, DEVICE, replicas=2, role="prefill", engine=engine),
        Pool(MODEL, DEVICE, replicas=2, role="decode", engine=engine),
    )
    load = poisson(0.3, requests=300, prompt_tokens=lognormal(500, 0.5), output_tokens=lognormal(30, 0.5), seed=2)
    ends = []
    for router in (PdPair(), PdPair(transfer=0.0), LeastRequests()):
        records = simulate(Cluster(pools), load, Policies(router=router), cost=Linear()).records
        assert set(records.status) == {FINISHED}
        ends.append(float(np.mean(np.array(records.ended_at) - np.array(records.arrived_at))))
    assert ends[0] < min(ends[1:]) / 2
