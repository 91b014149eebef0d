"""Conversations by three ways of orchestration: closed forms where there are any, and what a lost agent takes along."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.workload.matrix import WAYS, Fleet, conversations, run

CALLS = st.lists(st.lists(st.integers(1, 20).map(float), min_size=1, max_size=5), min_size=1, max_size=25)
WIDE = Fleet(rows=1000, agents=1, calls=1000, step_s=0.0)


@given(CALLS, st.integers(1, 9), st.integers(1, 3), st.integers(1, 3))
def test_no_way_beats_the_bounds(rows: list[list[float]], most: int, agents: int, calls: int) -> None:
    fleet = Fleet(most, agents, calls, step_s=0.5)
    work, longest = sum(map(sum, rows)), max(sum(row) + 0.5 * len(row) for row in rows)
    for way in WAYS:
        done = run(rows, way, fleet)
        assert done.calls == sum(map(len, rows)) and not done.lost
        assert done.seconds >= max(longest, work / min(agents * calls, most)) - 1e-9
        if way == "central":
            assert done.seconds >= 0.5 * done.calls


@given(CALLS)
def test_with_room_for_all_a_run_lasts_as_its_longest_row(rows: list[list[float]]) -> None:
    assert {run(rows, way, WIDE).seconds for way in WAYS} == {max(map(sum, rows))}


def test_a_batch_waits_for_its_slowest_row() -> None:
    rows = [[1.0], [9.0], [1.0], [1.0], [1.0], [9.0]]
    assert run(rows, "batch", Fleet(2, 1, 9, 0.0)).seconds == 9 + 1 + 9
    assert run(rows, "rows", Fleet(2, 1, 9, 0.0)).seconds == 4 + 9


def test_the_central_loop_takes_one_step_at_a_time() -> None:
    """Beyond 1/step its rate is that, while peers go on to rows/(step + call)."""
    rows = conversations(2000, turns=4, call_s=1.0)
    fleet = Fleet(rows=500, agents=10, calls=100, step_s=0.01)
    assert run(rows, "central", fleet).rate == pytest.approx(1 / 0.01, rel=0.02)
    assert run(rows, "rows", fleet).rate == pytest.approx(500 / 1.01, rel=0.01)
    few = Fleet(rows=50, agents=10, calls=100, step_s=0.01)
    assert run(rows, "central", few).rate == pytest.approx(run(rows, "rows", few).rate, rel=0.4)


@given(st.integers(0, 50), st.floats(0.1, 30.0))
def test_a_lost_agent_takes_only_its_rows_along(seed: int, at: float) -> None:
    rows = conversations(60, turns={"uniform": {"low": 1, "high": 5}}, call_s={"exponential": 2.0}, seed=seed)
    done = run(rows, "rows", Fleet(rows=20, agents=4, calls=5, step_s=0.01, lost=(1, at)))
    assert len(done.lost) <= 20 and len(set(done.lost)) == len(done.lost)
    left = sum(len(row) for number, row in enumerate(rows) if number not in done.lost)
    assert left <= done.calls <= sum(map(len, rows)), "all other rows are served to their end"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: run([[1.0]], "peer", Fleet()), "way is 'peer'; give one of central"),  # type: ignore[arg-type]
        (lambda: Fleet(agents=1, lost=(0, 1.0)), "there must be that one and another"),
        (lambda: Fleet(rows=0), "rows is 0"),
    ],
)
def test_what_cannot_be_is_refused(call: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        call()  # type: ignore[operator]
