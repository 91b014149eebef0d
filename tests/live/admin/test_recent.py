"""The last minutes: differences of totals, which add up to everything, and bounds that hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.units import SECOND
from poise.live.admin.recent import BEYOND, PARTS, Recent, Totals, between, bound, totals
from poise.live.gateway.counts import BOUNDS, CounterRow

values = st.lists(st.floats(0, 200), max_size=40)


def a_total(at_s: float, ttft: list[float]) -> Totals:
    row = CounterRow()
    for value in ttft:
        row.ttft.add(value)
        row.statuses[200] = row.statuses.get(200, 0) + 1
    return totals(round(at_s * SECOND), [row])


@given(values, st.sampled_from(PARTS))
def test_a_bound_is_the_least_that_holds_so_large_a_part(ttft: list[float], part: float) -> None:
    found = bound(a_total(0, ttft).ttft, part)
    if not ttft:
        assert found is None
        return
    below = [sum(value <= limit for value in ttft) >= part * len(ttft) - 1e-9 for limit in BOUNDS]
    assert found == (BOUNDS[below.index(True)] if any(below) else BEYOND)


@given(st.lists(values, min_size=1, max_size=6))
def test_the_steps_add_up_to_all_that_was_counted(steps: list[list[float]]) -> None:
    recent = Recent(a_total(0, []))
    sofar: list[float] = []
    for number, step in enumerate(steps):
        sofar = sofar + step
        recent.mark(a_total(10 * (number + 1), sofar))
    decided = recent.steps
    assert [sum(each.ttft) for each in decided] == [each.requests for each in decided] == [len(step) for step in steps]
    whole = between(a_total(0, []), a_total(10 * len(steps), sofar))
    assert [sum(column) for column in zip(*(each.ttft for each in decided), strict=True)] == list(whole.ttft)


@pytest.mark.parametrize(("window_s", "since_s"), [(10, 90), (60, 40), (1000, 0)])
def test_the_last_seconds_begin_at_the_step_that_is_as_old(window_s: float, since_s: int) -> None:
    recent = Recent(a_total(0, []))
    for at in range(10, 101, 10):
        recent.mark(a_total(at, [0.05] * at))
    now = a_total(103, [0.05] * 103)
    assert recent.last(now, window_s).requests == 103 - since_s


def test_only_so_many_steps_are_kept() -> None:
    recent = Recent(a_total(0, []))
    for at in range(1, 100):
        recent.mark(a_total(at, []))
    assert len(recent.steps) == 30
