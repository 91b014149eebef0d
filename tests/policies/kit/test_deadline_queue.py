"""Requests by urgency, those that are too late behind the others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poise.policies.kit.deadline_queue import DeadlineQueue

REQUESTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30), st.integers(0, 9)), max_size=20)


@given(REQUESTS, st.lists(st.integers(0, 7), max_size=8), st.sets(st.integers(0, 19)))
def test_equals_sorting(requests: list[tuple[int, int, int]], waits: list[int], gone: set[int]) -> None:
    turning, now = DeadlineQueue(), 0
    for id, (key, until, late_key) in enumerate(requests):
        turning.add(id, key, until, late_key)
    left = [id for id in range(len(requests)) if id not in gone]
    for id in gone & set(range(len(requests))):
        turning.remove(id)
    for wait in [0, *waits]:
        now += wait
        expected = sorted(
            (until < now, late_key if until < now else key, id)
            for id, (key, until, late_key) in enumerate(requests)
            if id in left
        )
        assert [tuple(place) for place in turning.order(now)] == expected


def test_one_that_comes_again_is_not_turned_by_what_it_was() -> None:
    turning = DeadlineQueue()
    turning.add(7, 1, 5, 0)
    turning.remove(7)
    turning.add(7, 2, 20, 0)
    assert [place.late for place in turning.order(10)] == [False]
    assert [place.late for place in turning.order(21)] == [True]
