"""KV lent between instances: steps by hand, what the planner offers, refusals, and memory that balances."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.claims.lent_kv import Cluster, Fleet, Running
from poise.core.errors import UserError
from poise.policies.kit.lending import Greedy, Loan, Status


def step_s(batch: int, read: float) -> float:
    """A second whatever the batch, and a hundredth for each KV token: memory is what limits a batch."""
    return 1.0 + read / 100


def a_fleet(instances: int = 2, **more: int) -> Fleet:
    return Fleet(instances, 100, 4, step_s, **more)


def run(fleet: Fleet, lengths: list[list[tuple[int, int]]], *, lend: bool = True) -> Cluster:
    queues = [iter([Running(prompt, output) for prompt, output in each]) for each in lengths]
    cluster = Cluster(fleet, queues, Greedy(step_s, fleet.capacity, fleet.most) if lend else None)
    cluster.run(1e4)
    return cluster


def test_steps_by_hand() -> None:
    """A prompt of 50 tokens and two of output: 1 + 0.50 and 1 + 0.51 seconds."""
    outcome = run(a_fleet(1), [[(50, 2)]]).outcome
    assert outcome.tokens_per_s == pytest.approx(2 / 3.01)


def test_a_request_that_fits_nowhere_by_itself_is_decoded_by_two() -> None:
    queue = [[(150, 10)], [(10, 2)]]
    assert run(a_fleet(), queue).outcome.longest == 160
    alone = run(a_fleet(), queue, lend=False)
    assert alone.outcome.longest == 12 and alone.all[0].waiting


def test_the_smallest_batch_is_offered_the_emptiest() -> None:
    planner = Greedy(step_s, 100, 4)
    blocked = Status(1, 60, 60, 80, 20.0)
    idle, busier = Status(1, 10, 10, 0, 0.0), Status(1, 30, 30, 0, 0.0)
    loans = planner.plan([blocked, busier, idle])
    assert loans[0].debtor == 0 and loans[0].creditor == 2
    assert sum(loan.tokens for loan in loans) >= 40  # what the head lacks


@pytest.mark.parametrize(
    "other",
    [
        Status(1, 10, 10, 0, 0.0, borrows=True),
        Status(1, 95, 95, 0, 0.0),
        Status(1, 10, 10, 0, 5.0),
    ],
    ids=["borrows itself", "is full", "has need of it"],
)
def test_other_replicas_do_not_lend(other: Status) -> None:
    assert Greedy(step_s, 100, 4).plan([Status(1, 60, 60, 80, 20.0), other]) == []


def test_a_replica_that_lends_or_has_enough_does_not_borrow() -> None:
    planner = Greedy(step_s, 100, 4)
    idle = Status(1, 10, 10, 0, 0.0)
    assert planner.plan([Status(1, 60, 60, 80, 20.0, lends=True), idle]) == []
    assert planner.plan([Status(4, 60, 60, 80, 20.0), idle]) == []


class Blind(Greedy):
    """Asks for the same again and again."""

    def plan(self, table: Sequence[Status]) -> list[Loan]:
        return [Loan(0, 1, 60), Loan(2, 1, 60)]


def test_a_creditor_without_room_refuses() -> None:
    cluster = Cluster(a_fleet(3), [iter(()), iter([Running(10, 3)]), iter(())], Blind(step_s, 100, 4))
    outcome = cluster.run(2.5)
    assert outcome.loans == 6 and outcome.refused == 3, "60 and 60 tokens do not fit 100"


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 90), st.integers(1, 9)), max_size=12), min_size=1, max_size=4),
    st.integers(0, 40),
)
@settings(max_examples=100)
def test_everybody_ends_and_memory_balances(lengths: list[list[tuple[int, int]]], move_tokens: int) -> None:
    fleet = a_fleet(len(lengths), move_tokens=move_tokens)
    queues = [iter([Running(*each) for each in row]) for row in lengths]
    cluster = Cluster(fleet, queues, Greedy(step_s, 100, 4))
    admit = cluster._admit

    def watched(place: int) -> None:
        admit(place)
        assert all(cluster.free(each) >= 0 for each in range(fleet.instances))

    cluster._admit = watched  # type: ignore[method-assign]
    outcome = cluster.run(1e6)
    assert outcome.longest == max((prompt + output for row in lengths for prompt, output in row), default=0)
    for place, one in enumerate(cluster.all):
        assert not one.running and not one.waiting
        assert one.own == one.read == one.hosted == 0
        assert one.lent == sum(other.credit.get(place, 0) for other in cluster.all)


def test_thresholds_are_parts() -> None:
    with pytest.raises(UserError, match="thresholds from 0 to 1"):
        Greedy(step_s, 100, 4, small=2.0)
