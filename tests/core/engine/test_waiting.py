"""The engine's queue: first come first served, or sorted by a policy."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from poise.core.engine.waiting import Fcfs, Ordered, Watched
from poise.core.request import RequestView, Sequence


class ByPriority:
    def queue(self, request: RequestView) -> int:
        return request.priority


def a_sequence(number: int, priority: int = 0, arrived_at: int = 0) -> Sequence:
    return Sequence(RequestView(number, arrived_at, 1, priority=priority), 1)


def test_first_come_first_served_but_the_preempted_go_first() -> None:
    queue = Fcfs()
    sequences = [a_sequence(number) for number in range(4)]
    assert [queue.push(sequence) for sequence in sequences[:3]] == [True, False, False]
    queue.push_front(sequences[3])
    assert [sequence.id for sequence in queue] == [3, 0, 1, 2]
    queue.remove(sequences[1])
    assert [sequence.id for sequence in queue] == [3, 0, 2]


entries = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20)


@given(entries, st.data())
def test_ordered_is_sorted_by_key_then_arrival_then_id(drawn: list[tuple[int, int]], data: st.DataObject) -> None:
    queue = Ordered(ByPriority())
    model: list[Sequence] = []
    for number, (priority, arrived_at) in enumerate(drawn):
        sequence = a_sequence(number, priority, arrived_at)
        model.append(sequence)
        model.sort(key=lambda each: (each.request.priority, each.request.arrived_at, each.id))
        push = data.draw(st.sampled_from([queue.push, queue.push_front]))
        assert push(sequence) == (model[0] is sequence)
        if data.draw(st.booleans()):
            gone = model.pop(data.draw(st.integers(0, len(model) - 1)))
            queue.remove(gone)
        assert list(queue) == model
        assert len(queue) == len(model)
        assert bool(queue) == bool(model)


class Listening:
    """A batcher that keeps the order itself, by the places that it is told."""

    def __init__(self) -> None:
        self.places: dict[int, Any] = {}

    def waits(self, sequence: Sequence, place: Any) -> None:
        assert sequence.id not in self.places
        self.places[sequence.id] = place

    def waited(self, sequence: Sequence) -> None:
        del self.places[sequence.id]

    def order(self) -> list[int]:
        return sorted(self.places, key=lambda id: self.places[id])


@given(entries, st.booleans(), st.data())
def test_a_batcher_sees_the_waiting_requests_in_their_order(
    drawn: list[tuple[int, int]], sorts: bool, data: st.DataObject
) -> None:
    batcher = Listening()
    queue = Watched(Ordered(ByPriority()) if sorts else Fcfs(), batcher)
    for number, (priority, arrived_at) in enumerate(drawn):
        push = queue.push_front if data.draw(st.booleans()) else queue.push
        push(a_sequence(number, priority, arrived_at))
        if data.draw(st.booleans()):
            queue.remove(data.draw(st.sampled_from(list(queue))))
        assert [sequence.id for sequence in queue] == batcher.order()
    queue.sort_anew()
    assert [sequence.id for sequence in queue] == batcher.order()
    assert len(queue) == len(batcher.places)
