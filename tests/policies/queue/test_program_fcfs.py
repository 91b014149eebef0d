"""Programs first come, first served, after who was preempted and whose KV is pinned."""

from __future__ import annotations

from poise.core.engine.waiting import Ordered
from poise.core.request import Sequence
from poise.policies.order.program_fcfs import ProgramOrder
from poise.policies.queue.program_fcfs import ProgramFcfs
from poise.testing import a_request


def waiting(number: int, begun_at: int, *, pinned: bool = False, preemptions: int = 0) -> Sequence:
    sequence = Sequence(a_request(id=number, arrived_at=100 + number, begun_at=begun_at), 1)
    sequence.pinned, sequence.preemptions = pinned, preemptions
    return sequence


def test_preempted_then_pinned_then_by_the_arrival_of_the_program() -> None:
    queue = Ordered(ProgramFcfs())
    for each in (
        waiting(0, 5),
        waiting(1, 2),
        waiting(2, 9, pinned=True),
        waiting(3, 50, preemptions=1),
        waiting(4, 7),
    ):
        queue.push(each)
    assert [sequence.id for sequence in queue] == [3, 2, 1, 0, 4]


def test_a_sequence_is_found_again_though_its_place_would_be_another_now() -> None:
    queue = Ordered(ProgramFcfs())
    moved = waiting(1, 2)
    for each in (waiting(0, 5), moved, waiting(2, 9)):
        queue.push(each)
    moved.preemptions = 1
    queue.remove(moved)
    assert [sequence.id for sequence in queue] == [0, 2]


def test_the_gateway_orders_by_program_too() -> None:
    order = ProgramOrder()
    assert order.key(a_request(arrived_at=9, begun_at=3)) == 3
    assert order.flow(a_request()) == order.flow(a_request(id=1, tenant=4))
