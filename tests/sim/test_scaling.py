"""Replicas that come and go because a scaler wants it: starts in stages, leases, drains, losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from poise.core.action import Scale
from poise.core.chance import Chance
from poise.core.errors import ScenarioError
from poise.core.event import Draining, ReplicaJoined, ReplicaLeft
from poise.core.records.records import FINISHED, LOST, UNFINISHED, Run
from poise.core.records.trace import Trace, replay
from poise.core.spec import Belief, Cluster, Device, Engine, Fault, Pool, Startup
from poise.core.units import SECOND, seconds
from poise.core.view import FleetView
from poise.policies import Policies
from poise.policies.forecast.oracle import Oracle
from poise.policies.scale.keep_alive import KeepAlive
from poise.report.spending import uptime
from poise.scenario.simulate import build_world, simulate
from poise.sim.terms import Saving, Watching
from poise.testing.cost import LinearCost
from poise.testing.invariants import check_world
from poise.workload.table import Workload
from tests.sim.cases import DEVICE, MODEL

STAGES = Startup(provision_s=10, image_s=5, engine_s=3, weights_s=2, capture_s=1)
"""18 s until a slot is pre-warmed, 3 s from there."""


class Plan:
    """Sizes by the second: `(at_s, replicas, warm)`."""

    needs: tuple[str, ...] = ()
    period_s = 1.0

    def __init__(self, *plan: tuple[int, int, int]) -> None:
        self.plan = plan

    def scale(self, cluster: FleetView, chance: Chance) -> Sequence[Scale]:
        found = [each for each in self.plan if each[0] * SECOND <= cluster.now]
        return [Scale(0, *found[-1][1:])] if found else []


class Cost:
    """Steps of a second, each token of a prompt a millisecond."""

    def build(self, pool: Pool) -> LinearCost:
        return LinearCost(step_s=1.0, prompt_s=0.001)


def pool(**given: Any) -> Pool:
    engine = Engine(token_budget=100, max_sequences=4, kv_blocks=1000)
    return Pool(
        MODEL, **{"device": DEVICE, "engine": engine, "startup": STAGES, "max_replicas": 3, "min_replicas": 0, **given}
    )


def load(*arrivals_s: float, output: int = 5) -> Workload:
    stamps = np.array([at * SECOND for at in arrivals_s], "i8")
    rows = len(stamps)
    return Workload(stamps, np.full(rows, 10, "i4"), np.full(rows, output, "i4"))


def run(policy: Any, some: Workload, some_pool: Pool | None = None, **given: Any) -> Run:
    cluster = Cluster((some_pool or pool(),), faults=given.pop("faults", ()))
    policies = Policies(scaler=policy, **given.pop("also", {}))
    return simulate(
        cluster, some, policies, cost=Cost(), belief=Belief(), **given, watching=Watching(after_event=check_world)
    )


def steps(done: Run) -> list[tuple[float, int, int, int, int]]:
    return [(seconds(each.at), *each[2:6]) for each in done.scaled]


def leases(done: Run, number: int) -> list[tuple[float, float]]:
    stats = done.replicas[number]
    return [(seconds(a), seconds(b)) for a, b in [*stats.before, (stats.up_from, stats.up_until)] if a >= 0]


def test_a_replica_serves_when_its_stages_are_done_and_leaves_when_it_is_empty() -> None:
    done = run(Plan((4, 2, 0), (40, 1, 0)), load(0, 39, 39.5, 60, output=9))
    last = seconds(max(done.records.ended_at[row] for row in (1, 2) if done.records.replica[row] == 1))
    assert steps(done) == [(0, 1, 1, 0, 0), (4, 2, 1, 1, 0), (25, 2, 2, 0, 0), (40, 1, 1, 0, 1), (last, 1, 1, 0, 0)]
    assert leases(done, 1) == [(4, last)], "from the begin of its start to its last token"
    assert list(done.records.status) == [FINISHED] * 4


def test_a_start_that_is_not_wanted_any_more_is_given_up() -> None:
    done = run(Plan((4, 3, 0), (10, 2, 0), (12, 1, 0)), load(0, 50))
    assert steps(done) == [(0, 1, 1, 0, 0), (4, 3, 1, 2, 0), (10, 2, 1, 1, 0), (12, 1, 1, 0, 0)]
    assert (leases(done, 1), leases(done, 2)) == ([(4, 12)], [(4, 10)])


def test_a_prewarmed_slot_needs_its_weights_alone_and_is_replaced() -> None:
    done = run(Plan((4, 2, 1)), load(0, 50), pool(prewarmed=1))
    assert [(seconds(each.at), each.serving, each.starting, each.warm) for each in done.scaled] == [
        (0, 1, 0, 1), (4, 1, 1, 1), (7, 2, 0, 1), (22, 2, 0, 1),
    ]  # fmt: skip
    assert leases(done, 1)[0][0] == 0 and leases(done, 2)[0][0] == 4, "warm slots are paid for"


def test_a_slot_that_is_warming_goes_on_where_it_is() -> None:
    """Warming from 4 s to 22 s; wanted at 10 s, it serves at 25 s."""
    done = run(Plan((4, 1, 1), (10, 2, 0)), load(0, 50))
    assert (25.0, 2, 2, 0, 0) in steps(done)


def test_a_slot_is_used_again_by_a_fresh_replica() -> None:
    plan = Plan((4, 2, 0), (30, 1, 0), (40, 2, 0), (70, 1, 0))
    done = run(plan, load(0, 26, 26.5, 65, 65.5, 90))
    assert [round(begin) for begin, _ in leases(done, 1)] == [4, 40]
    assert uptime(done.replicas[1], done.ended_at) == sum(
        round((end - begin) * SECOND) for begin, end in leases(done, 1)
    )
    assert list(done.records.replica).count(1) == 2 and set(done.records.status) == {FINISHED}
    assert done.replicas[1].steps == 10, "five for each life's request"


def test_requests_wait_for_the_first_replica() -> None:
    """From none: asked for at the next beat, 21 s later it serves; then it goes, and comes again."""
    done = run(KeepAlive(concurrency=4, keep_s=5), load(0.5, 100), pool(replicas=0))
    first = [seconds(at - came) for at, came in zip(done.records.first_token_at, done.records.arrived_at, strict=True)]
    assert first == [pytest.approx(0.5 + 21 + 1.01), pytest.approx(21 + 1.01)]
    assert [begin for begin, _ in leases(done, 0)] == [1, 100]


def test_who_waits_for_a_scaler_that_does_nothing_is_given_up() -> None:
    done = run(Plan(), load(0.5), pool(replicas=0))
    assert list(done.records.status) == [UNFINISHED] and not leases(done, 0)


def test_a_lost_replica_is_replaced() -> None:
    faults = (Fault(30.0, "lost", 0),)
    done = run(Plan(), load(0, 29.5), faults=faults)
    assert steps(done) == [(0, 1, 1, 0, 0), (30, 1, 0, 1, 0), (51, 1, 1, 0, 0)]
    assert list(done.records.replica) == [0, 0] and LOST not in done.records.status
    assert [begin for begin, _ in leases(done, 0)] == [0, 30]


def test_starts_spread_as_a_log_normal_and_repeat_themselves() -> None:
    many = pool(replicas=1, max_replicas=200, startup=replace(STAGES, sigma=0.5))
    done, again, other = (run(Plan((1, 200, 0)), load(0, 300), many, seed=seed) for seed in (3, 3, 4))
    assert done.scaled == again.scaled != other.scaled
    joined = [seconds(each.at) - 1 for each in done.scaled if each.serving > 1]
    logs = np.log(np.array(joined) / 21)
    assert abs(float(np.median(logs))) < 0.1 and 0.45 < float(np.std(logs)) < 0.55


def test_the_record_replays_to_the_same_decisions() -> None:
    trace = Trace()
    cluster = Cluster((pool(),))
    policies = Policies(scaler=KeepAlive(concurrency=2, keep_s=10))
    some = load(*(0.1 * each for each in range(40)), 80, 80.1, 80.2)
    world = build_world(cluster, some, policies, Cost(), Belief(), saving=Saving(trace=trace))
    fresh = world.control.clone()
    world.simulate()
    assert {ReplicaJoined, Draining, ReplicaLeft} <= {type(each) for each in trace.events}
    decided = [each for each in replay(trace.events, fresh) if isinstance(each, Scale)]
    assert decided == [each for each in trace.actions if isinstance(each, Scale)] != []


def test_no_more_than_the_most_hold_devices() -> None:
    """One drains for long; until it has left, nobody takes its place, and then somebody does."""
    done = run(Plan((4, 1, 0), (6, 2, 0)), load(0, 0.1, output=40), pool(replicas=2, max_replicas=2))
    assert all(each.serving + each.starting + each.draining <= 2 for each in done.scaled)
    assert [(each.draining, each.starting) for each in done.scaled] == [(0, 0), (1, 0), (1, 0), (0, 1), (0, 0)]


@pytest.mark.parametrize(
    ("some", "given", "message"),
    [
        (pool(replicas=5), {}, "replicas: 5 is not within min_replicas 0 and max_replicas 3"),
        (pool(), {"belief": Belief(gateways=2)}, "2 each know their own requests alone"),
        (pool(), {"faults": (Fault(1.0, "join", 0),)}, "cannot join where a scaler decides"),
    ],
)
def test_what_cannot_be(some: Pool, given: dict[str, Any], message: str) -> None:
    cluster = Cluster((some,), faults=given.pop("faults", ()))
    with pytest.raises(ScenarioError) as error:
        simulate(cluster, load(0), Policies(scaler=Plan()), cost=Cost(), **given)
    assert message in str(error.value)


def test_the_truth_of_a_closed_load_is_not_known_beforehand() -> None:
    closed = replace(load(0, 0, 0), concurrency=1)
    with pytest.raises(ScenarioError, match="the arrivals of this workload follow its answers"):
        run(Plan(), closed, also={"forecast": Oracle()})


def test_devices_cost_money_and_idle_power_from_the_begin_of_a_start() -> None:
    from poise.report.rates import Window
    from poise.report.spending import dollars, joules

    priced = replace(DEVICE, price_per_hour=3600.0, tdp_w=100.0)
    assert isinstance(priced, Device)
    done = run(Plan((4, 2, 0), (30, 1, 0)), load(0, 60), pool(device=priced))
    up = seconds(done.ended_at) + 26
    cluster = Cluster((pool(device=priced),))
    assert dollars(done, cluster)[0] == pytest.approx(up)
    busy = sum(seconds(each.busy) for each in done.replicas)
    assert joules(done, cluster, Window(0, 0, done.ended_at))[0] == pytest.approx(100 * (0.2 * up + 0.8 * busy))


def test_without_a_scaler_there_are_as_many_as_at_the_start() -> None:
    plain = simulate(Cluster((pool(),)), load(0, 1), cost=Cost())
    alone = simulate(Cluster((pool(max_replicas=None, min_replicas=None),)), load(0, 1), cost=Cost())
    assert plain.records == alone.records and plain.scaled == []
    assert [uptime(each, plain.ended_at) > 0 for each in plain.replicas] == [True, False, False]
