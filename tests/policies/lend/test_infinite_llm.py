"""The lender of Infinite-LLM: whom it helps, what it asks for, what it gives back; and that it serves more."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import poise as ps
from poise.core.action import Lend
from poise.core.units import SECOND
from poise.policies.lend.infinite_llm import InfiniteLlm
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.route.round_robin import RoundRobin
from poise.testing import a_cluster, a_flight, a_replica, a_request
from poise.testing.columns import ClusterColumns, ReplicaColumns
from poise.workload.table import Workload

LENDER = InfiniteLlm()


def blocked(prompt: int = 12_000, free: int = 300, waiting: int = 1, running: int = 8, **more: Any) -> ReplicaColumns:
    """One of 1,000 blocks whose first waiting request does not fit."""
    flights = tuple(a_flight(a_request(id=at, prompt_tokens=1000), first_token_at=SECOND) for at in range(running))
    queue = tuple(a_flight(a_request(id=50 + at, prompt_tokens=prompt)) for at in range(waiting))
    return a_replica(
        waiting=waiting, running=running, free_blocks=free, tokens=(1000 - free) * 16 + prompt * waiting,
        queued_tokens=prompt * waiting, flights=flights + queue, **more,
    )  # fmt: skip


def idle(free: int = 900, **more: Any) -> ReplicaColumns:
    return a_replica(running=2, free_blocks=free, tokens=(1000 - free) * 16, **more)


def cluster(*replicas: ReplicaColumns, **more: Any) -> ClusterColumns:
    return a_cluster(*replicas, needs=LENDER.needs, now=10 * SECOND, **more)


def lends(*replicas: ReplicaColumns, **more: Any) -> list[Lend]:
    return list(copy.deepcopy(LENDER).lend(cluster(*replicas, **more)))


def test_a_request_that_does_not_fit_is_helped_by_the_emptiest() -> None:
    first, *_ = loans = lends(blocked(), idle(700), idle(900))
    assert (first.debtor, first.creditor) == (0, 2)
    assert sum(loan.blocks for loan in loans) >= -(-(12_000 + 300) // 16) - 300  # what the head lacks


@pytest.mark.parametrize(
    ("debtor", "other"),
    [
        (blocked(prompt=1000), idle()),
        (blocked(waiting=0), idle()),
        (blocked(), idle(free=150)),
        (blocked(), blocked(prompt=100, free=900)),
        (blocked(), idle(able=False)),
        (blocked(), idle(total_blocks=2000)),
        (blocked(), idle(role="decode")),
    ],
    ids=["fits", "nobody waits", "nearly full", "has a queue", "takes nothing", "another size", "another role"],
)
def test_no_loan(debtor: ReplicaColumns, other: ReplicaColumns) -> None:
    assert lends(debtor, other) == []


def test_what_is_not_used_goes_back_but_for_what_requests_may_still_take() -> None:
    """Of 600 free blocks 50 are kept, and 19 for each of 8 that run."""
    assert lends(blocked(waiting=0, free=600), idle(), loans={(0, 1): 500}) == [Lend(0, 1, -398)]
    assert lends(blocked(waiting=0, free=600), idle(), loans={(0, 1): 100}) == [Lend(0, 1, -100)]
    assert lends(blocked(waiting=0, free=150), idle(), loans={(0, 1): 500}) == []


def test_a_running_prompt_keeps_the_blocks_of_its_rest() -> None:
    """Else it would be preempted for want of them, and computed again from its first token."""
    prompt = a_flight(a_request(prompt_tokens=9600))
    for rest, back in ((9600, []), (3200, [Lend(0, 1, -312)]), (0, [Lend(0, 1, -500)])):
        debtor = a_replica(running=2, free_blocks=600, tokens=8000, queued_tokens=rest, flights=(prompt,))
        assert lends(debtor, idle(), loans={(0, 1): 500}) == back  # of 600 blocks 50 are kept, and 19 for each output


def test_a_creditor_where_requests_wait_gets_back_what_the_debtors_requests_leave() -> None:
    assert lends(idle(free=600), blocked(), loans={(0, 1): 500})[0] == Lend(0, 1, -500)
    assert lends(blocked(free=300, prompt=9600), blocked(), loans={(0, 1): 500})[0] == Lend(0, 1, -98)
    assert lends(idle(free=80), blocked(), loans={(0, 1): 500}) == []


@given(st.integers(1, 4), st.integers(1000, 12_000), st.lists(st.integers(300, 900), min_size=1, max_size=3))
def test_no_more_is_lent_than_those_who_wait_can_use(waiting: int, prompt: int, rooms: list[int]) -> None:
    """To within the sixteenth parts of the room in which the planner searches."""
    loans = lends(blocked(prompt=prompt, free=0, waiting=waiting), *map(idle, rooms))
    if loans:
        room = sum(rooms)
        assert sum(loan.blocks for loan in loans) <= waiting * -(-(prompt + 300) // 16) + room // 16 + len(rooms) + 1


def test_a_loan_on_its_way_is_not_requested_again() -> None:
    lender = copy.deepcopy(LENDER)
    view = cluster(blocked(measured_at=10 * SECOND), idle(measured_at=10 * SECOND), kv_rate=4000.0)
    assert lender.lend(view)
    assert list(lender.lend(view)) == []
    later = cluster(blocked(measured_at=20 * SECOND), idle(measured_at=20 * SECOND))
    assert lender.lend(later)


@pytest.mark.parametrize("router", [RoundRobin, LeastRequests, PrefixCache])
def test_with_any_router_more_is_served_where_lengths_differ_much(router: Any) -> None:
    """Four instances of LLaMA2-7B; one request in eight takes half a memory and more, and all of those may meet."""
    rng = np.random.default_rng(3)
    prompt = rng.integers(500, 3000, 160)
    prompt[::8] = rng.integers(60_000, 90_000, 20)
    load = Workload(np.zeros(160, "i8"), prompt.astype("i4"), np.full(160, 200, "i4"))
    built = ps.Cluster.of("A100", count=4).replicas(4, model="llama-2-7b")
    pool = built.pools[0]
    built = replace(built, pools=(replace(pool, model=replace(pool.model, max_context=1 << 20)),))
    alone, lent = (
        ps.simulate(built, load, ps.Policies(router=router(), lender=each)).run for each in (None, InfiniteLlm())
    )
    assert lent.loans > 0 == alone.loans
    assert lent.ended_at < alone.ended_at
