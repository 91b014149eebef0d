"""The fast path equals the step-by-step reference to the picosecond, and everything balances after every event."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import pytest
from hypothesis import given, seed, settings

from poise.core.records.records import Run
from poise.core.records.trace import Trace
from poise.core.spec import Belief, Cluster, Engine, Pool
from poise.policies.route.least_requests import LeastRequests
from poise.testing.cost import LinearCost
from poise.testing.invariants import check_blame
from poise.workload.table import Prefixes, Workload
from tests.depth import examples
from tests.sim.cases import DEVICE, LAYERS, MODEL, PREFILL_FIRST, Case, Restless, cases

COLUMNS = (
    "arrived_at", "dispatched_at", "first_token_at", "ended_at", "status", "replica", "decode_replica", "prompt_tokens",
    "output_tokens", "cached_tokens", "preemptions", "migrations", "retries",
)  # fmt: skip


def assert_equal(fast: Run, slow: Run) -> None:
    for name in COLUMNS:
        assert getattr(fast.records, name) == getattr(slow.records, name), name
    for ours, theirs in zip(fast.replicas, slow.replicas, strict=True):
        for name in ("busy", "steps", "prompt_tokens", "decode_tokens"):
            assert getattr(ours, name) == getattr(theirs, name), name
    assert fast.blame == slow.blame


def compare(case: Case) -> None:
    fast, slow = Trace(), Trace()
    run = case.build(one_step=False, trace=fast, blame=True).simulate()
    assert_equal(run, case.build(one_step=True, trace=slow, blame=True).simulate())
    check_blame(run)
    for ours, theirs in zip(fast.lines, slow.lines, strict=True):
        assert ours == theirs


@pytest.mark.deep
@given(cases())
@settings(max_examples=examples(400))
def test_fast_path_equals_reference(case: Case) -> None:
    compare(case)


@pytest.mark.deep
@given(cases(scaled_percent=100))
@settings(max_examples=examples(150))
def test_fast_path_equals_reference_where_replicas_come_go_and_change_roles(case: Case) -> None:
    compare(case)


@pytest.mark.deep
@given(cases(ranked_percent=100))
@settings(max_examples=examples(100))
def test_fast_path_equals_reference_where_a_policy_ranks_evictions(case: Case) -> None:
    compare(case)


@pytest.mark.deep
@given(cases(lent_percent=100))
@settings(max_examples=examples(150))
def test_fast_path_equals_reference_where_blocks_are_lent(case: Case) -> None:
    compare(case)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(10))
def test_fast_path_equals_reference_on_many(number: int) -> None:
    @seed(number)
    @given(cases())
    @settings(max_examples=int(os.environ.get("POISE_EXAMPLES", "400")))
    def check(case: Case) -> None:
        compare(case)

    check()


def test_a_second_turn_at_an_instant_leaves_a_hold_whose_boundary_passed_in_the_first() -> None:
    """A request that comes at 5400, after replica 0's step ended there, joins at 5800 however long the hold is."""
    engine = Engine(token_budget=3, max_sequences=3, block_tokens=1, reserve_prompt=True, lanes=PREFILL_FIRST)
    output = [2, 1, 9, 13, 1, 8, 1, 1, 1, 6, 1, 1, 4]
    prompt = np.ones(len(output), "i4")
    case = Case(
        seed=1,
        workload=Workload(np.zeros(len(output), "i8"), prompt, np.array(output, "i4")),
        engine=engine,
        cost=LinearCost(step_s=1e-10, decode_s=1e-10, layers=LAYERS),
        blocks=75,
        roles=["mixed", "mixed"],
        cluster=Cluster((Pool(MODEL, DEVICE, engine=engine),) * 2, link_bw=1e16, link_latency_s=0.0),
        router=LeastRequests,
        belief=Belief(5e-9, 0.0),
        ttl=0,
        swap=True,
        ordered=True,
        until_s=None,
        drain=True,
        resume=True,
        long_prefill=0,
        mover=partial(Restless, 1, False),
        last_blocks=0,
    )
    compare(case)
    ended = case.build(one_step=False).simulate().records.ended_at
    assert (ended[2], ended[3]) == (6200, 5800)


def test_a_lane_that_found_no_room_looks_again_when_a_pin_gave_way_for_another_lane() -> None:
    """At 200 ms the prefill lane finds no room beside the pins, then the decode lane drops them: 6 goes at 220 ms."""
    engine = Engine(token_budget=8, max_sequences=4, block_tokens=1, reserve_prompt=True, lanes=PREFILL_FIRST)
    prompt = np.array([1, 1, 7, 16, 24, 28, 3, 1, 1, 1, 1, 1, 1], "i4")
    output = np.array([1, 1, 11, 9, 1, 3, 1, 1, 1, 1, 1, 1, 1], "i4")
    rows = len(prompt)
    none = Prefixes(np.zeros(rows + 1, "i8"), np.zeros(0, "i8"), np.zeros(0, "i4"), np.arange(rows) + 10**9)
    session = np.zeros(rows, "i4")
    case = Case(
        seed=0,
        workload=Workload(np.zeros(rows, "i8"), prompt, output, prefixes=none, session=session),
        engine=engine,
        cost=LinearCost(step_s=0.01, layers=LAYERS),
        blocks=89,
        roles=["mixed"],
        cluster=Cluster((Pool(MODEL, DEVICE, engine=engine),)),
        router=LeastRequests,
        belief=Belief(0.0, 0.0),
        ttl=300 * 10**9,
        swap=True,
        ordered=True,
        until_s=None,
        drain=True,
        resume=True,
        long_prefill=0,
        mover=type(None),
        last_blocks=0,
    )
    compare(case)
    assert case.build(one_step=False).simulate().records.first_token_at[6] == 240 * 10**9
