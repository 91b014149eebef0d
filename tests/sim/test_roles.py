"""Replicas that take another role while they run: draining, making ready, faults; tenants with their own replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from poise.core.action import Convert, Scale
from poise.core.chance import Chance
from poise.core.errors import PolicyError, ScenarioError
from poise.core.event import Draining, ReplicaJoined, ReplicaLeft, ReplicaUpdated
from poise.core.records.records import FINISHED, REJECTED, Run
from poise.core.records.trace import Trace, replay
from poise.core.spec import Belief, Cluster, Engine, Fault, Pool, Role, Startup
from poise.core.units import SECOND, seconds
from poise.core.view import FleetView
from poise.policies import Policies
from poise.policies.scale.pd_serve import PdServe
from poise.scenario.simulate import build_world, simulate
from poise.sim.terms import Saving, Watching
from poise.testing.cost import LinearCost
from poise.testing.invariants import check_world
from poise.workload.table import Workload
from tests.sim.cases import DEVICE, MODEL

STAGES = Startup(provision_s=10, image_s=5, engine_s=3, weights_s=2, capture_s=1, connect_s=4)
"""18 s until a slot is pre-warmed, 7 s from there, and for another role."""


class Plan:
    """Answers by the second."""

    needs: tuple[str, ...] = ()
    period_s = 1.0

    def __init__(self, plan: dict[int, Scale | Convert]) -> None:
        self.plan = plan

    def scale(self, cluster: FleetView, chance: Chance) -> Sequence[Scale | Convert]:
        answer = self.plan.get(cluster.now // SECOND)
        return [] if answer is None else [answer]


class Cost:
    """Steps of a second, each token of a prompt a millisecond; KV takes no time."""

    def build(self, pool: Pool) -> LinearCost:
        return LinearCost(step_s=1.0, prompt_s=0.001)


def pools(*roles: Role, **given: Any) -> tuple[Pool, ...]:
    """A pool of as many replicas as there are of each role."""
    engine = Engine(token_budget=100, max_sequences=4, kv_blocks=1000, first_token="prefill")
    settings = {"device": DEVICE, "engine": engine, "startup": STAGES, **given}
    counts = {role: roles.count(role) for role in dict.fromkeys(roles)}
    return tuple(Pool(MODEL, role=role, replicas=count, **settings) for role, count in counts.items())


THREE = ("prefill", "decode", "decode")


def load(*arrivals_s: float, output: int = 5) -> Workload:
    stamps = np.array([at * SECOND for at in arrivals_s], "i8")
    return Workload(stamps, np.full(len(stamps), 10, "i4"), np.full(len(stamps), output, "i4"))


def run(plan: dict[int, Scale | Convert], some: Workload, where: tuple[Pool, ...], *faults: Fault, **given: Any) -> Run:
    cluster = Cluster(where, link_bw=1e9, faults=faults)
    return simulate(
        cluster, some, Policies(scaler=Plan(plan)), cost=Cost(), **given, watching=Watching(after_event=check_world)
    )


def converted(done: Run) -> list[tuple[float, float, int, str]]:
    return [(seconds(each.since), seconds(each.at), each.replica, each.role) for each in done.converted]


def test_an_idle_replica_takes_its_stages_and_then_serves_in_the_other_role() -> None:
    done = run({4: Convert(2, "prefill")}, load(0, *np.arange(20, 30, 0.1)), pools(*THREE))
    assert converted(done) == [(4, 11, 2, "prefill")]
    assert 2 in done.records.replica and set(done.records.decode_replica) == {1}
    assert set(done.records.status) == {FINISHED}


def test_a_busy_replica_ends_what_it_has_first() -> None:
    done = run({4: Convert(1, "prefill")}, load(0, 0.1, 0.2, 0.3, 30, output=20), pools(*THREE))
    ((since, at, replica, _),) = converted(done)
    last = max(seconds(done.records.ended_at[row]) for row in range(4) if done.records.decode_replica[row] == 1)
    assert (since, replica) == (4, 1) and at == pytest.approx(last + 7) and last > 10
    assert list(done.records.status) == [FINISHED] * 5 and not any(done.records.retries)


def test_its_devices_are_paid_for_throughout() -> None:
    done = run({4: Convert(2, "prefill")}, load(0, 30), pools(*THREE))
    stats = done.replicas[2]
    assert [*stats.before, (stats.up_from, stats.up_until)] == [(0, 4 * SECOND), (4 * SECOND, done.ended_at)]
    assert [(seconds(each.at), each.serving, each.starting) for each in done.scaled if each.pool == 1] == [
        (0, 2, 0), (4, 1, 1), (11, 2, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        (THREE, Convert(0, "decode")),
        (("prefill", "decode"), Convert(1, "prefill")),
        (("mixed",), Convert(0, "decode")),
        (THREE, Convert(1, "decode")),
    ],
    ids=["the last to prefill", "the last to decode", "the only one", "it is so already"],
)
def test_who_is_the_last_of_its_side_stays(where: tuple[Role, ...], answer: Convert) -> None:
    done = run({4: answer}, load(0, 30), pools(*where))
    assert converted(done) == [] and set(done.records.status) == {FINISHED}


def test_a_mixed_replica_may_leave_the_others_to_do_both() -> None:
    plan: dict[int, Any] = {2: Convert(0, "prefill"), 12: Convert(1, "decode"), 30: Convert(2, "prefill")}
    done = run(plan, load(0, *range(40, 60)), pools("mixed", "mixed", "mixed"))
    assert [each[2:] for each in converted(done)] == [(0, "prefill"), (1, "decode"), (2, "prefill")]
    assert set(done.records.replica[1:]) == {0, 2} and set(done.records.decode_replica[1:]) == {1}


@pytest.mark.parametrize("answer", [Convert(9, "prefill"), Convert(1, "both")], ids=str)  # type: ignore[arg-type]
def test_an_answer_that_cannot_be_meant(answer: Convert) -> None:
    with pytest.raises(PolicyError, match=r"Plan answers Convert.* must give a replica that serves, and one of the"):
        run({4: answer}, load(0, 30), pools(*THREE))


def test_who_is_lost_on_the_way_starts_anew_in_its_new_role() -> None:
    some = load(0, 0.1, *range(40, 60), output=20)
    done = run({4: Convert(1, "prefill")}, some, pools(*THREE), Fault(6.0, "lost", 1))
    assert converted(done) == [(4, 6 + 25, 1, "prefill")], "all stages from the loss on"
    assert set(done.records.status) == {FINISHED} and 1 in done.records.replica


def test_who_is_drained_on_the_way_goes_for_good_and_comes_back_as_it_was() -> None:
    some = load(0, 0.1, 80, output=20)
    done = run({4: Convert(1, "prefill")}, some, pools(*THREE), Fault(6.0, "drain", 1))
    assert converted(done) == [] and set(done.records.status) == {FINISHED}
    assert 1 not in done.records.replica


def test_a_pool_that_shrinks_lets_one_go_that_drains_already() -> None:
    plan: dict[int, Any] = {4: Convert(1, "prefill"), 6: Scale(1, 0)}
    done = run(plan, load(0, 0.1, output=20), pools(*THREE, min_replicas=0))
    assert converted(done) == [] and done.scaled[-1][2:6] == (0, 0, 0, 0)


def test_the_record_replays_to_the_same_decisions() -> None:
    trace = Trace()
    policies = Policies(scaler=Plan({4: Convert(2, "prefill"), 20: Convert(2, "decode")}))
    world = build_world(
        Cluster(pools(*THREE), link_bw=1e9), load(*range(40)), policies, Cost(), Belief(), saving=Saving(trace=trace)
    )
    fresh = world.control.clone()
    world.simulate()
    assert {Draining, ReplicaLeft, ReplicaUpdated, ReplicaJoined} <= {type(each) for each in trace.events}
    decided = list(replay(trace.events, fresh))
    assert decided == list(trace.actions)
    assert [each for each in decided if isinstance(each, Convert)] == [Convert(2, "prefill"), Convert(2, "decode")]


# Tenants with replicas of their own ----------------------------------------------------------------------------------


def test_each_tenant_goes_to_its_own_pools_and_the_others_to_the_shared_ones() -> None:
    some = replace(load(*range(12)), tenant=np.array([0, 1, 2, -1] * 3, "i4"))
    where = [*pools(*THREE, tenants=(0,)), *pools(*THREE, tenants=(1,)), *pools("mixed")]
    done = run({}, some, tuple(where))
    sides = list(zip(done.records.replica, done.records.decode_replica, strict=True))
    assert {side[0] for side in sides[0::4]} == {0} and {side[1] for side in sides[0::4]} <= {1, 2}
    assert {side[0] for side in sides[1::4]} == {3} and {side[1] for side in sides[1::4]} <= {4, 5}
    assert set(sides[2::4] + sides[3::4]) == {(6, 6)}


def test_a_full_group_does_not_hold_up_another() -> None:
    """Tenant 0 waits for a replica that never comes; tenant 1 does not."""
    some = replace(load(0, 1), tenant=np.array([0, 1], "i4"))
    where = (*pools("mixed", tenants=(0,), min_replicas=0), *pools("mixed", tenants=(1,)))
    where = (replace(where[0], replicas=0, max_replicas=1), where[1])
    done = run({3: Scale(0, 1)}, some, where)
    assert [seconds(each) for each in done.records.dispatched_at] == [3 + 25, 1]


def test_who_has_no_pool_is_turned_away() -> None:
    some = replace(load(0, 1), tenant=np.array([0, 1], "i4"))
    done = simulate(Cluster(pools("mixed", tenants=(0,))), some, cost=Cost())
    assert list(done.records.status) == [FINISHED, REJECTED]
    assert list(done.refusals) == ["no replica serves model 0 to tenant 1"]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (
            pools("mixed", "mixed", "mixed"),
            "PdServe needs a replica to spare beside one of each role (prefill, decode)",
        ),
        ((*pools("prefill", "decode", tenants=(0,)), *pools("prefill", "decode")), "PdServe needs a replica to spare"),
        (
            pools(*THREE, engine=Engine(kv_blocks=1000)),
            "pools.0.engine.first_token: decode hides from PdServe when a prompt is done; give prefill",
        ),
    ],
    ids=["mixed", "two pairs", "first tokens"],
)
def test_what_cannot_be(where: tuple[Pool, ...], message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        simulate(Cluster(where), load(0), Policies(scaler=PdServe()), cost=Cost())
    assert message in str(error.value)
