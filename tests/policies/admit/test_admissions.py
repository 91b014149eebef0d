"""Each admission against its rule, to the picosecond where it names an instant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.action import Dispatch, Hold, Refuse, Reject
from poise.core.control.control import Control
from poise.core.errors import ScenarioError
from poise.core.event import Arrived, Cancelled, Finished, Measured, Tick
from poise.core.records.records import FINISHED, TIMED_OUT
from poise.core.spec import Belief, Cluster, Engine, Pool, ReplicaSpec
from poise.core.units import SECOND, ps
from poise.policies import Policies
from poise.policies.admit.ceiling import Ceiling
from poise.policies.admit.early_reject import EarlyReject
from poise.policies.admit.saturation import Saturation
from poise.policies.admit.tenant_limits import Bucket, TenantLimits
from poise.policies.find import build
from poise.policies.route.least_requests import LeastRequests
from poise.scenario.simulate import build_world
from poise.sim.terms import Saving, Watching
from poise.testing import a_cluster, a_replica, a_request, check_world
from poise.workload import poisson
from poise.workload.table import Workload
from tests.sim.cases import DEVICE, MODEL
from tests.sim.test_fair_shares import Recipe

MINUTE = 60 * SECOND


def gate(*admission: Any, replicas: int = 1, spec: ReplicaSpec | None = None) -> Control:
    return Control(Policies(router=LeastRequests(), admission=admission), [spec or ReplicaSpec()] * replicas)


# Ceiling --------------------------------------------------------------------------------------------------------------


def test_a_ceiling_leaves_those_with_room() -> None:
    cluster = a_cluster(a_replica(requests=3, tokens=900), a_replica(requests=2, tokens=2000), a_replica())
    request = a_request(prompt_tokens=200)
    assert Ceiling(requests=3).admit(request, (0, 1, 2), cluster) == [1, 2]
    assert Ceiling(requests=0, tokens=1100).admit(request, (0, 1, 2), cluster) == [0, 2]
    assert Ceiling(requests=0, tokens=1099).admit(request, (0, 1, 2), cluster) == [2]
    assert Ceiling(requests=3, tokens=1100).admit(request, (0, 1, 2), cluster) == [2]
    assert list(Ceiling(requests=0).admit(request, (0, 1, 2), cluster)) == [0, 1, 2], "all turned off"


def test_a_ceiling_by_the_size_of_the_cache() -> None:
    small = a_replica(requests=1, tokens=100, total_blocks=100)
    unknown = a_replica(requests=1, tokens=10**6, total_blocks=0)
    admit = Ceiling(requests=0, kv_share=0.5).admit
    assert admit(a_request(prompt_tokens=700), (0, 1), a_cluster(small, unknown)) == [0, 1]
    assert admit(a_request(prompt_tokens=701), (0, 1), a_cluster(small, unknown)) == [1]


def test_a_prompt_above_the_ceiling_is_served_alone() -> None:
    admit = Ceiling(requests=8, tokens=100).admit
    assert admit(a_request(prompt_tokens=500), (0,), a_cluster(a_replica())) == [0]
    assert admit(a_request(prompt_tokens=500), (0,), a_cluster(a_replica(requests=1, tokens=1))) == []


# Saturation -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiting", "free", "full"), [(0, 1000, 0.0), (5, 1000, 1.0), (2, 1000, 0.4), (0, 200, 1.0), (1, 400, 0.75)]
)
def test_fullness_is_the_worse_of_queue_and_cache(waiting: int, free: int, full: float) -> None:
    replica = a_replica(waiting=waiting, free_blocks=free, measured_at=SECOND, requests=250)
    assert Saturation().fullness(0, a_cluster(replica, now=2 * SECOND)) == pytest.approx(full)


def test_the_fleet_is_held_on_its_mean_and_a_replica_on_its_own() -> None:
    full, half = a_replica(waiting=8, measured_at=1), a_replica(waiting=1, measured_at=1)
    assert list(Saturation().admit(a_request(), (0, 1), a_cluster(full, half))) == [0, 1]
    assert Saturation(scope="replica").admit(a_request(), (0, 1), a_cluster(full, half)) == [1]
    assert type(Saturation().admit(a_request(), (0, 1), a_cluster(full, full))) is Hold


def test_blocks_that_are_lent_count_where_they_are_used() -> None:
    """Who has lent all its blocks and is held for it would never be sent the request that calls them back."""
    lender, borrower = a_replica(free_blocks=0, measured_at=1), a_replica(free_blocks=500, measured_at=1)
    cluster = a_cluster(lender, borrower, loans={(1, 0): 1000})
    assert Saturation().fullness(0, cluster) == 0
    assert Saturation(kv_utilisation=1.0).fullness(1, cluster) == 0.75


@pytest.mark.parametrize("measured_at", [0, SECOND])
def test_old_news_is_neither_full_nor_empty(measured_at: int) -> None:
    """What nobody measured lately is as full as what was sent there, whatever the last measurement said."""
    for waiting, free in ((0, 1000), (99, 0)):
        replica = a_replica(waiting=waiting, free_blocks=free, measured_at=measured_at, requests=64)
        cluster = a_cluster(replica, now=measured_at + ps(2.0) + 1)
        assert Saturation(in_flight=256).fullness(0, cluster) == 0.25


def test_a_request_held_by_a_measurement_is_decided_again_when_it_is_too_old() -> None:
    control = gate(Saturation(), spec=ReplicaSpec(blocks=10))
    control.handle(Measured(2, 1, 0, {"waiting": 9, "free_blocks": 10}))
    (wake,) = control.handle(Arrived(3, a_request(id=0, arrived_at=3)))
    assert wake.at == 1 + 2 * SECOND + 1  # type: ignore[union-attr]
    assert control.handle(Arrived(4, a_request(id=1, arrived_at=4))) == ()
    sent = control.handle(Tick(wake.at))  # type: ignore[union-attr]
    assert [action.request for action in sent if isinstance(action, Dispatch)] == [0, 1]


# Early rejection ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 20_000), st.integers(1, 5000), st.sampled_from([1, 2, 4]))
def test_who_would_be_late_comes_back_when_an_equal_one_is_in_time(queued: int, prompt: int, replicas: int) -> None:
    """1,000 tokens a second on each replica; 5 s."""
    late = ps(queued / 1000 / replicas) + ps(prompt / 1000) - 5 * SECOND
    columns = [a_replica(prefill_rate=1000.0)] * (replicas - 1)
    cluster = a_cluster(a_replica(queued_tokens=queued, prefill_rate=1000.0), *columns, now=SECOND)
    answer = EarlyReject().enter(a_request(prompt_tokens=prompt, arrived_at=SECOND), cluster)
    assert answer == (None if late <= 0 else Reject("predicted to miss its TTFT deadline", late))


def test_what_is_held_here_counts_as_ahead() -> None:
    control = gate(Ceiling(1), EarlyReject(ttft_s=2.0), spec=ReplicaSpec(prefill_rate=1000.0))
    assert control.handle(Arrived(0, a_request(id=0, prompt_tokens=900)))
    assert control.handle(Arrived(0, a_request(id=1, prompt_tokens=900))) == ()
    (refusal,) = control.handle(Arrived(0, a_request(id=2, prompt_tokens=900)))
    assert refusal == Refuse(2, "predicted to miss its TTFT deadline", ps(0.7))  # 0.9 s in the engine, 0.9 s here
    control.handle(Cancelled(0, 1, "gone"))
    assert control.handle(Arrived(0, a_request(id=3, prompt_tokens=900))) == ()


def test_who_cannot_be_in_time_any_more_is_not_sent() -> None:
    control = gate(Ceiling(1), EarlyReject(ttft_s=2.0), spec=ReplicaSpec(prefill_rate=1000.0))
    control.handle(Arrived(0, a_request(id=0, prompt_tokens=10)))
    control.handle(Arrived(0, a_request(id=1, prompt_tokens=500)))
    control.handle(Arrived(0, a_request(id=2, prompt_tokens=10)))
    actions = control.handle(Finished(ps(1.6), 0, 1))
    assert actions == [Refuse(1, "its first token cannot be in time any more", 0), Dispatch(2, 0, 0, True)]
    assert not control.held


def test_a_deadline_that_no_replica_could_meet_names_no_time_to_come_back() -> None:
    cluster = a_cluster(a_replica(prefill_rate=1000.0, queued_tokens=9))
    answer = EarlyReject().enter(a_request(prompt_tokens=3000, deadline_at=SECOND), cluster)
    assert isinstance(answer, Reject) and not answer.retry_after


def test_an_unknown_rate_turns_no_request_away() -> None:
    unknown = a_replica(prefill_rate=0.0, queued_tokens=10**9)
    assert EarlyReject().enter(a_request(), a_cluster(unknown)) is None
    assert EarlyReject().admit(a_request(), (0,), a_cluster(unknown, now=10**15)) == (0,)
    mixed = a_cluster(unknown, a_replica(prefill_rate=1000.0))
    assert isinstance(EarlyReject().enter(a_request(), mixed), Reject), "as fast as the one that is known"


# Limits of tenants ----------------------------------------------------------------------------------------------------


@given(st.integers(1, 10_000), st.lists(st.tuples(st.integers(0, MINUTE), st.integers(1, 3000)), max_size=20))
def test_a_bucket_is_exact(rate: int, takes: list[tuple[int, int]]) -> None:
    """Whoever comes back when told is let in, and a picosecond earlier is not; no minute gives more than two."""
    bucket, now, taken = Bucket(rate, 0), 0, 0
    for gap, units in takes:
        now += gap
        wait = bucket.wait(units, now)
        if wait:
            assert bucket.wait(units, now + wait - 1) > 0
            now += wait
            assert bucket.wait(units, now) == 0
        bucket.take(min(units, rate), now)
        taken += min(units, rate)
        assert taken * MINUTE <= rate * (MINUTE + now)


def test_requests_a_minute_for_each_tenant() -> None:
    control = gate(TenantLimits(requests_per_minute=2, tenants={7: {"requests_per_minute": 0}}))
    answers = [control.handle(Arrived(0, a_request(id=number, tenant=3)))[0] for number in range(3)]
    assert answers[2] == Refuse(2, "over its tenant's requests a minute", MINUTE // 2)
    assert isinstance(control.handle(Arrived(0, a_request(id=3, tenant=4)))[0], Dispatch), "another tenant"
    assert all(isinstance(control.handle(Arrived(0, a_request(id=9 + n, tenant=7)))[0], Dispatch) for n in range(9))
    again = a_request(id=2, tenant=3)
    assert isinstance(control.handle(Arrived(MINUTE // 2 - 1, again, 1))[0], Refuse)
    assert isinstance(control.handle(Arrived(MINUTE // 2, again, 2))[0], Dispatch)


def test_output_is_paid_when_it_was_made() -> None:
    control = gate(TenantLimits(tokens_per_minute=600))
    control.handle(Arrived(0, a_request(id=0, prompt_tokens=300, tenant=1)))
    control.handle(Arrived(0, a_request(id=1, prompt_tokens=300, tenant=1)))
    control.handle(Finished(0, 0, 500))
    control.handle(Cancelled(0, 1, "gone", 100))
    (refusal,) = control.handle(Arrived(0, a_request(id=2, prompt_tokens=60, tenant=1)))
    assert refusal == Refuse(2, "over its tenant's tokens a minute", 66 * SECOND)  # 600 owed and 60 wanted, 10 a second


def test_a_prompt_larger_than_a_minute_needs_a_full_bucket() -> None:
    control = gate(TenantLimits(tokens_per_minute=600))
    assert isinstance(control.handle(Arrived(0, a_request(id=0, prompt_tokens=1200)))[0], Dispatch)
    (refusal,) = control.handle(Arrived(0, a_request(id=1, prompt_tokens=9)))
    assert refusal.retry_after == ps(60.9)  # type: ignore[union-attr]


def test_requests_at_once_are_those_held_too() -> None:
    control = gate(Ceiling(1), TenantLimits(concurrency=2))
    for number in range(2):
        control.handle(Arrived(0, a_request(id=number, tenant=1)))
    assert control.handle(Arrived(0, a_request(id=2, tenant=1))) == (Refuse(2, "over its tenant's requests at once"),)
    control.handle(Cancelled(1, 1, "gone"))
    assert control.handle(Arrived(1, a_request(id=3, tenant=1))) == ()
    control.handle(Finished(2, 0, 1))
    assert control.handle(Arrived(2, a_request(id=4, tenant=1))) == ()


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("ceiling", {"requests": -1}, "must not be negative"),
        ("saturation", {"queue_depth": 0.0}, "above 0"),
        ("saturation", {"scope": "pool"}, "'pool' is unknown; give fleet or replica"),
        ("early_reject", {"hit_rate": 1.0}, "a share below 1"),
        ("tenant_limits", {"concurrency": -1}, "concurrency -1 is no limit"),
        ("tenant_limits", {"tenants": {1: {"rpm": 5}}}, "tenants: 1: unknown limit 'rpm'"),
        ("tenant_limits", {"tenants": {"a": {}}}, "tenants: {'a': {}} is no mapping by number"),
    ],
)
def test_parameters_that_make_no_sense(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        build("admission", name, parameters)


# In a simulation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("period_s", [0.0, 0.5, 3.0])
@pytest.mark.parametrize(
    "policy", [Ceiling(1), Ceiling(0, tokens=150), Saturation(1.0, 0.5, 10.0, 1), Saturation(scope="replica")]
)
def test_no_request_is_held_for_ever_by_old_news(policy: Any, period_s: float) -> None:
    """What is in flight does not count, so the last ones wait for a report made when nothing runs any more."""
    workload = poisson(3.0, requests=12, prompt_tokens=100, output_tokens=20, seed=3)
    cluster = Cluster((Pool(MODEL, DEVICE, replicas=2, engine=Engine(kv_blocks=100)),))
    belief = Belief(period_s, 0.05, in_flight=False)
    run = build_world(cluster, workload, Policies(admission=(policy,)), Recipe(), belief).simulate()
    assert {*run.records.status} == {FINISHED}


def test_who_is_sent_as_his_client_gives_up_is_taken_back() -> None:
    """Request 1 leaves the engine's queue unnoticed; the next report, as the client of 2 gives up, has 2 sent."""
    timeout = np.array([0, 0, SECOND // 5], "i8")
    workload = Workload(np.zeros(3, "i8"), np.array([50, 10, 10], "i4"), np.full(3, 50, "i4"), timeout=timeout)
    cluster = Cluster((Pool(MODEL, DEVICE, engine=Engine(kv_blocks=100, max_sequences=2, token_budget=10)),))
    policies = Policies(admission=(Saturation(1.0, 1.0, 10.0, 1),))
    world = build_world(
        cluster,
        workload,
        policies,
        Recipe(),
        Belief(0.0),
        saving=Saving(blame=True),
        watching=Watching(after_event=check_world),
    )
    records = world.simulate().records
    assert list(records.status) == [FINISHED, FINISHED, TIMED_OUT]
    assert records.dispatched_at[2] == records.ended_at[2] == SECOND // 5
    assert not records.output_tokens[2] and not world.control.flights
