"""Turns by headroom: closed forms of one model and of two, and the promise of the earliest deadline."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poise.claims.turns import Limits, Pace, in_time

LIMITS = Limits(1.0, 0.25)


def test_one_request_is_in_time_exactly_if_its_steps_are_short_enough() -> None:
    assert in_time([Pace(0.25, 0.0, 1.0)], [[3.0]], 5, LIMITS) == (1, 1)
    assert in_time([Pace(0.26, 0.0, 1.0)], [[3.0]], 5, LIMITS) == (0, 1)
    assert in_time([Pace(0.25, 0.0, 1.01)], [[3.0]], 5, LIMITS) == (0, 1)
    assert in_time([Pace(0.26, 0.0, 0.9)], [[3.0]], 5, LIMITS) == (1, 1), "0.1 s ahead, of which 0.04 are lost"


def test_without_requests_none_is_in_time() -> None:
    assert in_time([Pace(0.1, 0.0, 0.1)], [[]], 5, LIMITS) == (0, 0)


def test_a_batch_takes_longer() -> None:
    """Four requests at once: prompts 0.4 s, then steps of 0.1 + 3 × 0.05 s, just in time."""
    assert in_time([Pace(0.1, 0.05, 0.1)], [[0.0] * 4], 50, LIMITS) == (4, 4)
    assert in_time([Pace(0.1, 0.08, 0.1)], [[0.0] * 4], 50, LIMITS)[0] == 0


@given(st.lists(st.tuples(st.floats(0.01, 0.2), st.floats(0.0, 0.5)), min_size=1, max_size=4), st.integers(2, 30))
def test_steps_that_fit_in_a_period_are_in_time_and_those_that_do_not_are_late(
    models: list[tuple[float, float]], tokens: int
) -> None:
    """One request of each model. With no prompts to speak of, turns are in time if the steps of all fit in a TPOT."""
    paces = [Pace(step, 0.0, 0.001) for step, _ in models]
    found = in_time(paces, [[at] for _, at in models], tokens, LIMITS)
    assert found[1] == len(models)
    work = sum(step for step, _ in models)
    if work <= LIMITS.tpot_s - 0.01:
        assert found[0] == len(models)
    ends = max(at for _, at in models) + LIMITS.ttft_s + LIMITS.tpot_s * (tokens - 1)
    if min(at for _, at in models) + work * (tokens - 1) > ends:
        assert found[0] < len(models), "more work than there is time"
