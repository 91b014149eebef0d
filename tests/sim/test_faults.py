"""Faults: slow devices and links, replicas that come back, faults by rates, and what recovery makes of a loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import poise as ps
from poise.core.errors import ScenarioError
from poise.core.records.blame import SLOW
from poise.core.records.records import FINISHED, LOST, REJECTED, Run
from poise.core.spec import Cluster, Fault, FaultRate, Pool
from poise.core.units import SECOND, seconds
from poise.policies.admit.ceiling import Ceiling
from poise.policies.recover.migrate import Migrate
from poise.policies.recover.recompute import Recompute
from poise.policies.recover.restart import Restart
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.round_robin import RoundRobin
from poise.scenario.simulate import simulate
from poise.sim.hazards import faults as drawn
from poise.sim.network import Network, dips
from poise.sim.terms import Saving, Watching
from poise.testing.cost import LinearCost
from poise.testing.invariants import check_world
from poise.workload.table import Workload
from tests.depth import examples
from tests.sim.cases import DEVICE, MODEL, NONE, Case, cases
from tests.sim.test_exact import assert_equal


class Plain:
    """Ten milliseconds a step and so many seconds a prompt token; 1,000 bytes a token."""

    def __init__(self, prompt_s: float) -> None:
        self.prompt_s = prompt_s

    def build(self, pool: Pool) -> LinearCost:
        return LinearCost(step_s=0.01, prompt_s=self.prompt_s, token_bytes=1000)


COST = Plain(0.0)
GOING = ("lost", "reclaimed", "drain", "device_lost")


def a_load(*rows: tuple[float, int, int]) -> Workload:
    """Requests of (arrival in s, prompt tokens, output tokens)."""
    arrival, prompt, output = zip(*rows, strict=True)
    return Workload(np.array(arrival) * SECOND // 1, np.array(prompt, "i4"), np.array(output, "i4"))


def run(
    workload: Workload,
    *given: Fault,
    roles: tuple[str, ...] = ("mixed",),
    recovery: Any = None,
    cost: Plain = COST,
    **more: Any,
) -> Run:
    """Fast and step by step, every invariant checked after each event."""
    pools = tuple(Pool(MODEL, DEVICE, role=role, engine=ps.Engine(kv_blocks=1000)) for role in roles)  # type: ignore[arg-type]
    cluster = Cluster(pools, link_bw=1e7, link_latency_s=0.001, faults=given)
    policies = ps.Policies(router=RoundRobin(), recovery=recovery)
    runs = [
        simulate(
            cluster,
            workload,
            policies,
            cost=cost,
            one_step=one_step,
            belief=ps.Belief(0.1, 0.0),
            **more,
            saving=Saving(blame=True),
            watching=Watching(after_event=check_world),
        )
        for one_step in (True, False)
    ]
    assert_equal(*runs)
    return runs[1]


def ends(some: Run) -> list[float]:
    """When each request ended, in seconds."""
    return [seconds(at) for at in some.records.ended_at]


# Slow devices --------------------------------------------------------------------------------------------------------


def test_steps_that_begin_in_a_slow_spell_take_longer_by_the_factor() -> None:
    """Steps begin at 0, 10, … 50 ms; those at 60, 80, 100, 120 and 140 take 20 ms; four more from 160 on take 10."""
    load = a_load((0.0, 16, 15))
    assert ends(run(load)) == [0.15]
    slow = run(load, Fault(0.055, "slow", 0, for_s=0.1, factor=2))
    assert ends(slow) == [0.2]
    assert [(each.kind, each.at, each.until) for each in slow.faults] == [
        ("slow", SECOND * 55 // 1000, SECOND * 155 // 1000)
    ]


def test_what_a_slow_device_cost_is_charged_to_it() -> None:
    """Half of the time in the spell, which is told by instants: 100 ms of it, of which a double speed saves 50."""
    slow = run(a_load((0.0, 16, 15)), Fault(0.055, "slow", 0, for_s=0.1, factor=2))
    assert slow.blame is not None
    assert seconds(slow.blame.rest[SLOW][0]) == pytest.approx(0.05)


def test_of_two_spells_at_once_the_worst_counts() -> None:
    load = a_load((0.0, 16, 11))
    both = run(load, Fault(0.0, "slow", 0, for_s=0.095, factor=2), Fault(0.035, "slow", 0, for_s=0.05, factor=3))
    assert ends(both) == [0.17]  # two steps of 20 ms, two of 30 that begin at 40 and 70, then seven of 10
    forever = run(load, Fault(0.0, "slow", 0, factor=2))
    assert ends(forever) == [0.22]


# Links ---------------------------------------------------------------------------------------------------------------


def test_a_transfer_is_stretched_by_what_its_links_carry() -> None:
    """1 MB at 1 MB/s from 0 on takes 1 s; half the rate between 0.5 and 1 s leaves 0.25 MB, and nothing until 2 s."""
    found = dips([Fault(0.5, "link_slow", 0, for_s=0.5, factor=2), Fault(1.0, "link_lost", 1, for_s=1.0)])
    network = Network([1e6, 1e6, 1e6], 0.0, found)
    assert network.send(0, 0, 1, 10**6) == (0, SECOND * 225 // 100)
    assert network.send(0, 2, 0, 10**6) == (0, SECOND * 125 // 100)
    late = Network([1e6, 1e6], 0.0, found)
    assert late.send(SECOND * 3 // 2, 0, 1, 10**6) == (2 * SECOND, 3 * SECOND)  # it waits for the link


def test_kv_waits_for_a_link_that_is_lost() -> None:
    load, pair = a_load((0.0, 100, 5)), ("prefill", "decode")
    usual, lost = run(load, roles=pair), run(load, Fault(0.005, "link_lost", 1, for_s=1.0), roles=pair)
    (before,), (after,) = ends(usual), ends(lost)
    assert after - before == pytest.approx(1.005 - 0.01)  # the prompt is computed at 10 ms, the link is back at 1.005 s
    assert lost.records.status[0] == FINISHED


def test_kv_that_does_not_come_is_computed_where_it_was_to_arrive() -> None:
    """One prompt waits for 50 ms from 20 ms on, then takes 10 ms; the next one's KV finds the link back."""
    load, pair = a_load((0.0, 100, 5), (2.0, 100, 5)), ("prefill", "decode")
    cost = Plain(1e-4)  # 20 ms a prompt
    cut = Fault(0.005, "link_lost", 1, for_s=1.0)
    patient = run(load, cut, roles=pair, cost=cost, recovery=Recompute())
    again = run(load, cut, roles=pair, cost=cost, recovery=Recompute(patience_s=0.05))
    usual = run(load, roles=pair, cost=cost)
    assert ends(patient)[0] == pytest.approx(ends(usual)[0] + 1.005 - 0.02)
    assert ends(again)[0] == pytest.approx(0.02 + 0.05 + 0.02 + 4 * 0.01)
    assert ends(again)[1] == ends(usual)[1]
    assert again.replicas[1].prompt_tokens == 100 + 1  # of the other one, whose KV came, the last token
    assert list(again.records.status) == [FINISHED] * 2


def test_no_patience_below_none() -> None:
    for kind in (Recompute, Migrate):
        with pytest.raises(ValueError, match=r"patience_s -1 must be at least 0"):
            kind(patience_s=-1.0)


# Replicas that come back ---------------------------------------------------------------------------------------------


def test_a_replica_that_was_lost_comes_back_empty_and_serves() -> None:
    load = a_load((0.0, 16, 400), (1.0, 16, 5), (3.0, 16, 5))
    back = run(load, Fault(0.5, "lost", 0), Fault(2.0, "join", 0))
    assert list(back.records.status) == [FINISHED] * 3
    assert back.records.dispatched_at[1] == 2 * SECOND  # held, for another is to take its place
    assert back.replicas[0].before == [(0, SECOND // 2)]
    gone = run(load, Fault(0.5, "lost", 0))
    assert FINISHED not in gone.records.status


def test_a_slow_start_takes_longer_by_the_factor() -> None:
    pool = Pool(MODEL, DEVICE, start_s=2.0, engine=ps.Engine(kv_blocks=100))
    for factor in (1.0, 3.0):
        cluster = Cluster((pool,), faults=(Fault(1.0, "join", 0, factor=factor),))
        some = simulate(cluster, a_load((0.0, 16, 1)), cost=COST)
        assert ends(some) == [pytest.approx(1.0 + 2.0 * factor + 0.01)]


def test_the_end_of_a_notice_does_not_take_another_replica() -> None:
    """The reclaimed one leaves empty at once, another takes its place before the notice ends."""
    load = a_load((0.5, 16, 200))
    back = run(load, Fault(0.1, "reclaimed", 0, notice_s=2.0), Fault(0.2, "join", 0))
    assert ends(back) == [2.5]


def test_one_that_came_back_and_is_gone_again_is_waited_for_no_more() -> None:
    """What joins is to come once: after it nobody else will take the place, and requests are refused, not held."""
    load = a_load((0.0, 16, 50), (0.8, 16, 5), (3.0, 16, 5))
    some = run(load, Fault(0.6, "lost", 0), Fault(0.7, "join", 0), Fault(2.0, "drain", 0))
    assert list(some.records.status) == [FINISHED, FINISHED, REJECTED]
    some = run(load, Fault(0.9, "drain", 0), Fault(2.0, "device_lost", 0, for_s=0.5))  # of one that has left already
    assert list(some.records.status) == [FINISHED, FINISHED, REJECTED]


def test_no_waiting_request_is_sent_to_a_replica_that_is_gone_already() -> None:
    """It was to come back from a first loss; the ceiling that holds a request sees it empty once it is lost again."""
    faults = (Fault(0.1, "lost", 0), Fault(0.2, "join", 0), Fault(1.0, "lost", 0))
    pool = Pool(MODEL, DEVICE, engine=ps.Engine(kv_blocks=1000))
    load = a_load((0.3, 16, 200), (0.4, 16, 200), (0.5, 16, 200), (0.6, 16, 5))
    some = simulate(
        Cluster((pool, pool), faults=faults),
        load,
        ps.Policies(router=LeastRequests(), admission=(Ceiling(1),)),
        cost=COST,
        belief=ps.Belief(0.0, 0.0, in_flight=False),
        watching=Watching(after_event=check_world),
    )
    assert list(some.records.status) == [FINISHED] * 4
    assert list(some.records.retries) == [1, 0, 0, 0]


def test_who_has_no_decode_replica_left_is_refused() -> None:
    load = a_load((0.0, 16, 5), (2.0, 16, 5), (3.0, 16, 5))
    some = run(load, Fault(1.0, "lost", 1), roles=("prefill", "decode"))
    assert list(some.records.status) == [FINISHED, REJECTED, REJECTED]
    back = run(load, Fault(1.0, "lost", 1), Fault(4.0, "join", 1), roles=("prefill", "decode"))
    assert list(back.records.status) == [FINISHED] * 3
    assert min(ends(back)[1:]) > 4.0


def test_who_joins_while_another_of_its_number_drains_starts_behind_it() -> None:
    load = a_load((0.0, 16, 100), (0.6, 16, 5))
    some = run(load, Fault(0.5, "drain", 0), Fault(0.7, "join", 0))
    assert ends(some)[0] == 1.0 and some.records.dispatched_at[1] == SECOND
    assert list(some.records.status) == [FINISHED] * 2


# Recovery ------------------------------------------------------------------------------------------------------------

LOAD = a_load(*((0.0, 200, 100),) * 4)
NOTICE = Fault(0.5, "reclaimed", 0, notice_s=0.25)
TWO = ("mixed", "mixed")


def test_recoveries_of_a_reclaimed_replica() -> None:
    """Two of the four run on the replica that goes; what is computed twice is what tells the three apart."""
    prompts, outputs = 4 * 200, 4 * 100
    migrate, recompute, restart = (
        run(LOAD, NOTICE, roles=TWO, recovery=each(), cost=Plain(1e-4)) for each in (Migrate, Recompute, Restart)
    )
    assert list(migrate.records.migrations) == [1, 0, 1, 0]
    assert sum(each.prompt_tokens for each in migrate.replicas) == prompts
    for some in (recompute, restart):
        assert list(some.records.retries) == [1, 0, 1, 0]
    made = 70  # tokens that the two had when the replica was lost: their prompts took 50 ms
    assert sum(each.prompt_tokens for each in recompute.replicas) == prompts + 2 * (200 + made)
    assert sum(each.prompt_tokens for each in restart.replicas) == prompts + 2 * 200
    assert (
        sum(each.decode_tokens for each in recompute.replicas)
        < outputs
        <= sum(each.decode_tokens for each in restart.replicas)
    )
    assert max(ends(migrate)) < max(ends(recompute)) < max(ends(restart))
    assert recompute.records == run(LOAD, NOTICE, roles=TWO, cost=Plain(1e-4)).records  # the default


def test_migration_may_wait_for_those_that_end_within_the_notice() -> None:
    load = a_load((0.0, 16, 60), (0.0, 16, 60), (0.0, 16, 200), (0.0, 16, 60))
    late = run(load, NOTICE, roles=TWO, recovery=Migrate(lead_s=0.1))
    assert list(late.records.migrations) == [0, 0, 1, 0]
    assert list(late.records.retries) == [0] * 4


def test_a_prompt_under_way_is_moved_after_its_first_token() -> None:
    load = a_load((0.0, 16, 100), (0.0, 16, 5), (0.485, 10_000, 200), (0.485, 16, 5))
    some = run(load, Fault(0.495, "reclaimed", 0, notice_s=4.0), roles=TWO, recovery=Migrate())
    assert some.records.first_token_at[2] == SECOND * 51 // 100
    assert (some.records.migrations[2], some.records.retries[2]) == (1, 0)


def test_lead_s_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="lead_s -1 must be at least 0"):
        Migrate(-1.0)


ALONE: dict[str, Any] = dict.fromkeys(("after_offsets", "after_ids", "delay", "after_delay"))
"""Nobody comes only if another did not fail."""


def kept(case: Case) -> Case:
    """Of a random world: all its faults but those that take the first replica of each role, and nobody who gives up."""
    stays = {case.roles.index(role) for role in set(case.roles)}
    faults = tuple(each for each in case.cluster.faults if each.replica not in stays or each.kind not in GOING)
    faults = tuple(each for each in faults if each.replica not in stays or each.kind != "join")
    return replace(
        case, cluster=replace(case.cluster, faults=faults), workload=replace(case.workload, timeout=None, **ALONE),
        router=LeastRequests, admission=tuple, order=NONE, until_s=None,
    )  # fmt: skip


@pytest.mark.deep
@given(cases(scaled_percent=0).map(kept))
@settings(max_examples=examples(250))
def test_no_request_is_lost_while_a_replica_of_each_role_is_there(case: Case) -> None:
    """Whatever is slow, cut off, reclaimed or lost, and however it recovers: who fits ends with all its tokens."""
    some = case.build(one_step=False).simulate()
    limit = case.blocks * case.engine.block_tokens
    for row, status in enumerate(some.records.status):
        assert status != LOST
        room = limit - int(case.workload.prompt[row])
        if room > 0:
            assert status == FINISHED
            assert some.records.output_tokens[row] == min(int(case.workload.output[row]), room)


# Rates ---------------------------------------------------------------------------------------------------------------


def test_rates_give_the_faults_that_they_say() -> None:
    rates = (FaultRate("slow", 0.1, for_s=60.0, factor=2.0), FaultRate("lost", 0.05, (3,), back_s=600.0))
    found = drawn(rates, 10, 7, 1000 * 3600.0)
    slow = [each for each in found if each.kind == "slow"]
    assert len(slow) == pytest.approx(1000, abs=3 * 1000**0.5)
    lost, joins = ([each for each in found if each.kind == kind] for kind in ("lost", "join"))
    assert {each.replica for each in lost + joins} == {3}
    waits = [back.at_s - gone.at_s for gone, back in zip(lost, joins, strict=False)]
    assert np.mean(waits) == pytest.approx(600, rel=0.5)
    assert list(found) == sorted(found, key=lambda each: each.at_s)


def test_the_faults_of_one_rate_depend_on_no_other() -> None:
    slow, lost = FaultRate("slow", 1.0, for_s=1.0, factor=2.0), FaultRate("lost", 1.0)
    alone, both = drawn((slow,), 4, 1, 36_000.0), drawn((slow, lost), 4, 1, 36_000.0)
    assert [each for each in both if each.kind == "slow"] == list(alone)
    assert drawn((slow,), 4, 2, 36_000.0) != alone
    assert len([each for each in both if each.kind == "lost"]) <= 4  # nothing takes its place


def test_a_run_draws_its_faults_by_its_seed() -> None:
    pool = Pool(MODEL, DEVICE, replicas=3, engine=ps.Engine(kv_blocks=1000))
    cluster = Cluster((pool,), fault_rates=(FaultRate("lost", 400.0, back_s=1.0),))
    load = a_load(*((float(at), 16, 50) for at in range(30)))
    some = [simulate(cluster, load, cost=COST, seed=each) for each in (1, 1, 2)]
    assert some[0].faults == some[1].faults != some[2].faults
    assert set(some[0].records.status) == {FINISHED}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(0.0, "lost", 3), "replica 3 does not exist"),
        (Fault(0.0, "slow", 0), "factor 1 of a slow must be above 1"),
        (Fault(0.0, "link_lost", 0), "for_s 0 of a link_lost must be above 0"),
        (Fault(0.0, "device_lost", 0, for_s=-1.0), "for_s -1 of a device_lost is below 0"),
        (Fault(0.0, "device_lost", 0, devices=2), "replica 0 has 1 devices, of which 2 cannot be lost"),
    ],
)
def test_faults_that_cannot_be(fault: Fault, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        run(LOAD, fault)


def test_rates_need_an_end() -> None:
    pool = Pool(MODEL, DEVICE, engine=ps.Engine(kv_blocks=1000))
    cluster = Cluster((pool,), fault_rates=(FaultRate("lost", 1.0, back_s=1.0),))
    with pytest.raises(ScenarioError, match="give until_s"):
        simulate(cluster, replace(LOAD, concurrency=1), cost=COST)
