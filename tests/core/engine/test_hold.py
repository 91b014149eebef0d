"""The closed form of a held batch against adding up its steps, one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poise.core.engine.hold import span, steps_within

small = st.integers(0, 40)
huge = st.integers(0, 2**60)


def slow_steps_within(first: int, growth: int, elapsed: int, inclusive: bool) -> int:
    """Walk through the steps."""
    steps, end = 0, first
    while end <= elapsed if inclusive else end < elapsed:
        steps += 1
        end += first + growth * steps
    return steps


@given(small, small, small)
def test_span_is_the_sum_of_its_steps(first: int, growth: int, steps: int) -> None:
    assert span(first, growth, steps) == sum(first + growth * step for step in range(steps))


@given(st.integers(1, 40), small, st.integers(-3, 3000), st.booleans())
def test_steps_within_counts_like_a_loop(first: int, growth: int, elapsed: int, inclusive: bool) -> None:
    assert steps_within(first, growth, elapsed, inclusive) == slow_steps_within(first, growth, elapsed, inclusive)


@given(st.integers(0, 40), st.integers(1, 40), st.integers(0, 3000), st.booleans())
def test_a_first_step_that_takes_no_time_still_counts(first: int, growth: int, elapsed: int, inclusive: bool) -> None:
    assert steps_within(first, growth, elapsed, inclusive) == slow_steps_within(first, growth, elapsed, inclusive)


@given(st.integers(1, 2**60), huge, st.integers(0, 2**62), st.booleans())
def test_it_is_exact_where_floats_are_not(first: int, growth: int, elapsed: int, inclusive: bool) -> None:
    """What is counted has ended and the next has not, however large the numbers: that is the definition."""
    steps = steps_within(first, growth, elapsed, inclusive)
    before = elapsed if inclusive else elapsed - 1
    assert steps == 0 or span(first, growth, steps) <= before
    assert before < span(first, growth, steps + 1)


@given(st.integers(2, 2**40), st.integers(0, 2**20), st.integers(1, 2**19), st.integers(-1, 1))
def test_boundaries_of_long_holds(first: int, growth: int, steps: int, off: int) -> None:
    """Instants at, just before and just after the end of a step."""
    elapsed = span(first, growth, steps) + off
    assert steps_within(first, growth, elapsed, True) == (steps - 1 if off < 0 else steps)
    assert steps_within(first, growth, elapsed, False) == (steps if off > 0 else steps - 1)


@given(st.integers(2**52, 2**56), st.integers(1, 9), st.integers(1, 60), st.integers(-1, 1))
def test_boundaries_where_the_root_is_off(first: int, growth: int, steps: int, off: int) -> None:
    """Steps so long and growing so slowly that a float cannot tell one from the next."""
    elapsed = span(first, growth, steps) + off
    assert steps_within(first, growth, elapsed, True) == (steps - 1 if off < 0 else steps)
    assert steps_within(first, growth, elapsed, False) == (steps if off > 0 else steps - 1)


@given(st.integers(1, 2**60), st.integers(0, 2**60), st.integers(0, 2**61))
def test_cutting_a_hold_in_two_changes_no_end(first: int, growth: int, elapsed: int) -> None:
    """A batch cut at a boundary and gone on with ends its steps at the same instants: why integers were chosen."""
    steps = min(steps_within(first, growth, elapsed, True), 1000)
    rest = first + growth * steps
    for more in (1, 2, 17):
        assert span(first, growth, steps) + span(rest, growth, more) == span(first, growth, steps + more)
