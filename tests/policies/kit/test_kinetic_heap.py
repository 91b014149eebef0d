"""The kinetic tournament gives the order that sorting gives, at every instant."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from poise.policies.kit.kinetic_heap import KineticHeap


def test_the_one_that_falls_faster_comes_first_in_the_end() -> None:
    falling = KineticHeap()
    falling.add(1, 100, 50)
    falling.add(2, 60, 10)
    assert list(falling.order(0)) == [(2.0, 1), (6.0, 2)]
    assert list(falling.order(50)) == [(1.0, 1), (1.0, 2)]  # ties go by id
    assert list(falling.order(51)) == [(0.9, 2), (0.98, 1)]


values = st.tuples(st.integers(0, 60), st.integers(1, 9))


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(values, max_size=4), st.integers(0, 5)), max_size=30))
@settings(deadline=None)
def test_equals_sorting(steps: list[tuple[int, list[tuple[int, int]], int]]) -> None:
    falling, known, now, ids = KineticHeap(), dict[int, tuple[int, int]](), 0, 0
    for passed, added, removed in steps:
        now += passed
        for at, pace in added:
            known[ids] = at, pace
            falling.add(ids, at, pace)
            ids += 1
        expected = sorted(((at - now) / pace, id) for id, (at, pace) in known.items())
        assert list(falling.order(now)) == expected
        for _, id in expected[:removed]:
            falling.remove(id)
            del known[id]
        assert len(falling) == len(known)
