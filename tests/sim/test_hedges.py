"""Hedged requests in the simulator: the first token decides, in time, in the records and in what it cost."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings

from poise.core.action import Hedge, Route
from poise.core.chance import Chance
from poise.core.event import FirstToken
from poise.core.records.blame import LOST, PREFILL, QUEUE
from poise.core.records.records import FINISHED, TIMED_OUT
from poise.core.records.trace import Trace, replay
from poise.core.request import RequestView
from poise.core.spec import Belief, Cluster, Engine, Fault, Pool
from poise.core.view import ClusterView
from poise.sim.world import World
from poise.testing.cost import LinearCost
from poise.testing.invariants import check_blame
from poise.workload.table import Workload
from tests.core.scripted import Hasty, Scripted
from tests.sim.cases import DEVICE, LAYERS, MODEL, Case, cases

MS = 10**9


class After:
    """A copy goes to replica 1 after so many milliseconds."""

    needs = ()

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def wait(self, request: RequestView, replica: int, cluster: ClusterView) -> int:
        return self.ms * MS if request.id else 0

    def hedge(
        self, request: RequestView, replica: int, able: Sequence[int], cluster: ClusterView, chance: Chance
    ) -> int | None:
        return 1 if 1 in able else None


def two(*, wait_ms: int, timeout_ms: int = 0, fault: Fault | None = None) -> Case:
    """Request 0 computes 300 tokens at replica 0 for 300 ms, 100 ms a step; request 1, of 50 tokens, comes behind."""
    engine = Engine(token_budget=100, max_sequences=4, block_tokens=1)
    workload = Workload(
        np.array([0, 10 * MS], "i8"), np.array([300, 50], "i4"), np.array([1, 3], "i4"),
        timeout=np.array([0, timeout_ms * MS], "i8"),
    )  # fmt: skip
    return Case(
        seed=0,
        workload=workload,
        engine=engine,
        cost=LinearCost(step_s=0.0, prompt_s=1e-3, decode_s=1e-3, layers=LAYERS),
        blocks=1000,
        roles=["mixed", "mixed"],
        cluster=Cluster((Pool(MODEL, DEVICE, engine=engine),) * 2, faults=(fault,) if fault else ()),
        router=lambda: Scripted(lambda request, cluster: Route(cluster.able(request)[0])),
        belief=Belief(0.0, 0.0),
        ttl=0,
        swap=False,
        ordered=False,
        until_s=None,
        drain=True,
        resume=True,
        long_prefill=0,
        mover=type(None),
        hedge=lambda: After(wait_ms),
    )


def built(case: Case) -> tuple[World, Trace]:
    trace = Trace()
    return case.build(one_step=False, trace=trace, blame=True), trace


def test_the_copy_wins_and_the_first_one_gives_its_room_back() -> None:
    world, trace = built(two(wait_ms=20))
    run = world.simulate()
    records = run.records
    assert Hedge(1, 1) in list(trace.actions)
    assert records.first_token_at[1] == (10 + 20 + 50) * MS, "alone at replica 1"
    assert (records.replica[1], records.decode_replica[1]) == (1, 1)
    assert records.first_token_at[0] == 300 * MS, "the other one left its replica before it was admitted"
    assert (run.hedges, run.hedges_won, run.hedge_tokens) == (1, 1, 0)
    assert list(records.status) == [FINISHED] * 2 and list(records.output_tokens) == [1, 3]
    check_blame(run)
    assert run.blame is not None and run.blame.ttft[QUEUE][1] == 70 * MS, "as its first copy spent it"


def test_the_first_one_wins_and_what_the_copy_computed_is_counted() -> None:
    """At 300 ms replica 0 begins with request 1; the copy, sent at 345, is stopped at 350, but computes its step."""
    world, _ = built(two(wait_ms=335))
    run = world.simulate()
    assert run.records.first_token_at[1] == 350 * MS and run.records.replica[1] == 0
    assert (run.hedges, run.hedges_won, run.hedge_tokens) == (1, 0, 50)
    assert run.replicas[1].prompt_tokens == 50, "an engine frees a request only after its step"
    assert run.blame is not None and run.blame.ttft[PREFILL][1] == 50 * MS
    check_blame(run)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_replica_leaves_the_other_copy(lost: int) -> None:
    world, _ = built(two(wait_ms=20, fault=Fault(0.060, "lost", lost)))
    run = world.simulate()
    records = run.records
    assert list(records.status) == [FINISHED] * 2
    assert records.replica[1] == 1 - lost and run.hedges == 1 and run.hedges_won == 0
    if lost == 0:
        assert records.first_token_at[1] == 80 * MS, "it goes on without a pause"
        assert run.blame is not None and run.blame.ttft[LOST][1] == 50 * MS
        assert records.retries[1] == 0
    else:
        assert records.first_token_at[1] == 350 * MS
    check_blame(run)


def test_who_loses_patience_leaves_both() -> None:
    world, _ = built(two(wait_ms=20, timeout_ms=60))
    run = world.simulate()
    assert run.records.status[1] == TIMED_OUT and run.records.output_tokens[1] == 0
    assert all(not replica.sequences for replica in world.replicas) and not world.hedging.copies
    assert (run.hedges, run.hedges_won, run.hedge_tokens) == (1, 0, 0), "both were wanted until then"
    check_blame(run)


def test_no_policy_is_notified_of_first_tokens_unless_one_needs_them() -> None:
    case = two(wait_ms=20)
    assert case.build(one_step=False).control.observes
    case.hedge = type(None)
    assert not case.build(one_step=False).control.observes


@settings(max_examples=60)
@given(cases())
def test_each_copy_ends_once_and_the_record_replayed_decides_the_same(case: Case) -> None:
    """Every hedge is settled by one first token, or both copies are gone; the replay gives equal actions."""
    case.hedge = lambda: Hasty(int(case.workload.arrival[-1]) // 7 + 1)
    case.belief = Belief(case.belief.period_s, case.belief.delay_s, case.belief.in_flight, "own", 1)
    world, trace = built(case)
    fresh = copy.deepcopy(world.control)
    run = world.simulate()
    events, actions = list(trace.events), list(trace.actions)
    assert run.hedges == sum(type(each) is Hedge for each in actions)
    begun = Counter(event.request for event in events if type(event) is FirstToken)
    if world.control.resume:
        assert max(begun.values(), default=1) == 1, "one first token for each client"
    assert 0 <= run.hedges_won <= run.hedges
    assert run.hedge_tokens <= sum(stats.prompt_tokens for stats in run.replicas)
    assert Counter(replay(events, fresh)) == Counter(actions), "what an action brings about is recorded behind it"
