"""No queue at the engine: free slots, held requests, early stop and scenarios that queue apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.action import Dispatch, Hold, Refuse, Reject, Route, Wake
from poise.core.control.control import Control
from poise.core.engine.replica import Replica
from poise.core.event import Arrived, Finished, FirstToken, Tick
from poise.core.records.records import FINISHED, REJECTED, Run
from poise.core.spec import Belief, Cluster, Engine, Pool, ReplicaSpec, Role
from poise.core.units import SECOND
from poise.policies import Policies
from poise.policies.route.least_tokens import LeastTokens
from poise.policies.route.pull import Pull
from poise.sim.terms import Watching
from poise.sim.world import World
from poise.testing import LinearCost, a_chance, a_cluster, a_flight, a_replica, a_request
from poise.testing.columns import ReplicaColumns
from poise.workload.table import Workload
from tests.sim.cases import DEVICE, MODEL, Case, cases
from tests.sim.test_exact import compare

RATE = 1000.0
COST = LinearCost(step_s=0.0, decode_s=0.001, prompt_s=1 / RATE)


def holding(prefilling: int, decoding: int = 0, **columns: Any) -> ReplicaColumns:
    """A replica with so many requests without a first token, and so many with one."""
    waiting = [a_flight(a_request(id=100 + number)) for number in range(prefilling)]
    begun = [a_flight(a_request(id=200 + number), first_token_at=1) for number in range(decoding)]
    return a_replica(flights=(*begun, *waiting), prefill_rate=RATE, **columns)


@pytest.mark.parametrize(
    ("replicas", "slots", "chosen"),
    [
        ([holding(1), holding(0)], 1, 1),
        ([holding(1), holding(1)], 1, None),
        ([holding(2), holding(1)], 2, 1),
        ([holding(0, decoding=3), holding(1)], 1, 0),  # who has a first token takes no slot
        ([holding(0, decoding=3), holding(0, decoding=2)], 1, 1),  # but its stream is open
        ([holding(0, able=False), holding(1)], 1, None),
        ([holding(1), holding(1), holding(2)], 3, {0, 1}),
    ],
)
def test_a_request_goes_to_a_free_slot_or_nowhere(
    replicas: list[ReplicaColumns], slots: int, chosen: int | set[int] | None
) -> None:
    answers = [Pull(slots).route(a_request(id=key), a_cluster(*replicas), a_chance(key=key)) for key in range(20)]
    if chosen is None:
        assert set(answers) == {Hold("no free batch slot")}
    else:
        assert set(answers) == {Route(each) for each in ({chosen} if isinstance(chosen, int) else chosen)}


def test_the_batch_of_one_replica_is_filled_before_the_next() -> None:
    router, flights = Pull(slots=4), [0, 0, 0]
    for number in range(12):
        answer = router.route(a_request(id=number), a_cluster(*map(holding, flights)), a_chance(key=number))
        assert isinstance(answer, Route)
        flights[answer.replica] += 1
        assert sorted(flights)[:-1].count(0) == 2 - number // 4
        assert sum(0 < count < 4 for count in flights) <= 1
    assert flights == [4, 4, 4]


def test_a_batch_that_has_left_is_not_filled_any_more() -> None:
    router = Pull(slots=4)
    cluster = a_cluster(holding(0), holding(0), holding(0))
    counts = Counter(router.route(a_request(id=key), cluster, a_chance(key=key)) for key in range(300))
    assert min(counts.values()) > 70 and len(counts) == 3


@pytest.mark.parametrize(
    ("now_s", "answer"),
    [(0.0, Route), (4.0, Route), (4.1, Route), (4.2, Reject)],
)
def test_early_stop_once_an_idle_replica_would_be_too_late(now_s: float, answer: type) -> None:
    """1,000 tokens of which at best 100 are cached take 0.9 s of the 5 s."""
    cluster = a_cluster(holding(0), holding(0, cached_tokens=100), now=round(now_s * SECOND))
    for router, due in ((Pull(ttft_s=5.0), 0), (Pull(), 5 * SECOND), (Pull(ttft_s=1.0), 5 * SECOND)):
        assert type(router.route(a_request(prompt_tokens=1000, deadline_at=due), cluster, a_chance())) is answer
    assert type(Pull().route(a_request(prompt_tokens=1000), cluster, a_chance())) is Route  # no deadline at all


def test_a_held_request_asks_to_be_woken_once_when_its_last_chance_has_passed() -> None:
    router, cluster = Pull(ttft_s=5.0), a_cluster(holding(1))
    request = a_request(prompt_tokens=1000, ids=())
    first = router.route(request, cluster, a_chance())
    assert first == Hold("no free batch slot", 4 * SECOND + 1)
    assert router.route(request, cluster, a_chance()) == Hold("no free batch slot")
    late = a_cluster(holding(0), now=4 * SECOND + 1)
    assert type(router.route(request, late, a_chance())) is Reject


def test_without_identity_no_cache_is_looked_up() -> None:
    cluster = a_cluster(holding(0), needs=["flights"])
    assert Pull(ttft_s=5.0).route(a_request(ids=()), cluster, a_chance()) == Route(0)


def test_the_decode_half_goes_to_the_fewest_requests() -> None:
    pair = [holding(1, role="prefill"), a_replica(role="decode", requests=2), a_replica(role="decode", requests=1)]
    assert Pull().route(a_request(), a_cluster(*pair, stage="decode"), a_chance()) == Route(2)


@pytest.mark.parametrize("parameters", [{"slots": 0}, {"scenario": "weekday"}])
def test_parameters_that_make_no_sense(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give"):
        Pull(**parameters)


@pytest.mark.parametrize(
    ("scenario", "group"),
    [("model", 2), ("tenant", 5), ("lora", 7), ("session", 3), ("prefix", 11)],
)
def test_scenarios(scenario: str, group: int) -> None:
    request = a_request(model=2, tenant=5, lora=7, session=3, ids=(11, 12))
    assert Pull(scenario=scenario).group(request) == (2, group)
    assert Pull(scenario="prefix").group(a_request(ids=())) == (0, -1)


# With the control side ------------------------------------------------------------------------------------------------


def a_control(*capacity: int, **parameters: Any) -> Control:
    specs = [ReplicaSpec(capacity_tokens=each, prefill_rate=RATE) for each in capacity]
    return Control(Policies(router=Pull(**parameters)), specs, belief=Belief(5.0, in_flight=False))


def test_scenarios_do_not_block_one_another() -> None:
    """Tenant 0's long prompts fit replica 0 alone; while it is taken, tenant 1's short ones go on to replica 1."""
    control = a_control(1000, 100)

    def arrive(number: int, tenant: int, tokens: int) -> Any:
        return control.handle(Arrived(number, a_request(id=number, tenant=tenant, prompt_tokens=tokens, ids=())))

    assert arrive(0, 0, 500) == (Dispatch(0, 0, 0, True),)
    assert arrive(1, 0, 500) == () and arrive(2, 0, 50) == ()  # 2 fits replica 1 but is behind 1
    assert arrive(3, 1, 50) == (Dispatch(3, 1, 1, True),)
    assert arrive(4, 1, 50) == ()
    assert list(control.handle(Finished(5, 3, 1))) == [Dispatch(4, 1, 1, True)]
    assert list(control.handle(FirstToken(6, 0, 0))) == [Dispatch(1, 0, 0, True)]  # 0 goes on decoding
    assert [request.id for request in control.held] == [2]


def test_the_control_side_requests_one_wake_to_turn_away_requests_that_no_replica_took() -> None:
    control = a_control(1000, ttft_s=5.0)
    actions = [
        action
        for number in range(3)
        for action in control.handle(Arrived(0, a_request(id=number, prompt_tokens=500, ids=())))
    ]
    last = 4 * SECOND + SECOND // 2  # what is left of 5 s then computes 500 tokens
    assert actions == [Dispatch(0, 0, 0, True), Wake(last + 1)]
    assert list(control.handle(Tick(last))) == []
    refused = list(control.handle(Tick(last + 1)))
    assert [type(action) for action in refused] == [Refuse, Refuse] and not control.held


# In a world -----------------------------------------------------------------------------------------------------------


def traffic(rows: int, gap_s: float) -> Workload:
    """Poisson arrivals of three tenants, one token of output each; one prompt in ten is long."""
    rng = np.random.default_rng(4)
    prompt = np.where(rng.random(rows) < 0.1, 2000, 200).astype("i4")
    arrival = np.cumsum(rng.exponential(gap_s, rows) * SECOND).astype("i8")
    return Workload(arrival, prompt, np.ones(rows, "i4"), tenant=rng.integers(0, 3, rows).astype("i4"))


def run(
    router: Callable[[], Any],
    workload: Workload,
    roles: tuple[Role, ...] = ("mixed",) * 4,
    after_event: Callable[[World], None] | None = None,
) -> Run:
    engine = Engine(token_budget=4096, max_sequences=64)
    replicas = [Replica(engine, COST, 4000, Policies(), sends=role == "prefill") for role in roles]
    spec = ReplicaSpec(capacity_tokens=64_000, prefill_rate=RATE)
    control = Control(
        Policies(router=router()), [spec._replace(role=role) for role in roles], belief=Belief(1.0, in_flight=False)
    )
    cluster = Cluster(tuple(Pool(MODEL, DEVICE, role=role, engine=engine) for role in roles), link_bw=1e9)
    return World(
        cluster, workload, control, replicas, [64_000] * len(roles), watching=Watching(after_event=after_event)
    ).simulate()


@pytest.mark.parametrize("roles", [("mixed",) * 4, ("prefill", "prefill", "prefill", "decode")])
def test_no_request_ever_waits_in_a_prefill_queue(roles: tuple[Role, ...]) -> None:
    """Three loads, the last far beyond what they can do: whoever waits in an engine was sent at this very instant."""
    prefills = [number for number, role in enumerate(roles) if role != "decode"]

    def check(world: World) -> None:
        sent_at = world.records.dispatched_at
        for number in prefills:
            assert all(sent_at[sequence.id] == world.agenda.now for sequence in world.replicas[number].waiting)

    for gap_s in (0.3, 0.1, 0.02):
        ran = run(lambda: Pull(ttft_s=6.0), traffic(300, gap_s), roles, check)
        assert set(ran.records.status) <= {FINISHED, REJECTED}
    assert ran.refusals["its first token cannot be in time any more"] > 50


def test_a_queue_that_is_pushed_into_waits_and_the_check_would_see_it() -> None:
    waited = []

    def check(world: World) -> None:
        sent_at = world.records.dispatched_at
        waited.append(
            any(sent_at[each.id] < world.agenda.now for replica in world.replicas for each in replica.waiting)
        )

    run(LeastTokens, traffic(100, 0.05), after_event=check)
    assert any(waited)


@pytest.mark.parametrize("gap_s", [0.1, 0.02])
def test_early_stop_leaves_exactly_those_who_are_in_time(gap_s: float) -> None:
    """One slot, an exact rate and nothing but prompts: whoever is sent has its first token by its deadline."""
    ran = run(lambda: Pull(ttft_s=6.0), traffic(300, gap_s))
    records = ran.records
    for row in range(records.rows):
        sent = records.status[row] == FINISHED
        assert sent == (records.dispatched_at[row] >= 0)
        if sent:
            assert records.first_token_at[row] <= records.arrived_at[row] + 6 * SECOND
    assert list(records.status).count(FINISHED) > 100


@given(cases(), st.integers(1, 3), st.sampled_from(["tenant", "session", "prefix"]), st.sampled_from([0, 3, 30]))
@settings(max_examples=40)
def test_fast_path_equals_reference(case: Case, slots: int, scenario: str, steps: int) -> None:
    compare(replace(case, router=lambda: Pull(slots, steps * case.cost.step_s, scenario)))
