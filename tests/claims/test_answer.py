"""Where an answer must lie: bounds asked of whole intervals, at so many places."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from poise.claims.answer import Answer, Ratio, judge
from poise.claims.claim import Test as ClaimTest
from poise.report.intervals import Interval

R = Ratio


def judged(found: Any, **test: Any) -> bool | None:
    return judge(Answer("key", "text", found), ClaimTest(**test))


@pytest.mark.parametrize(
    ("found", "test", "met"),
    [
        (R(2, 1.5, 2.5), {"least": 1.5}, True),  # a bound may be touched,
        (R(2, 1.5, 2.5), {"above": 1.5}, None),  # a strict one may not
        (R(2, 1.5, 2.5), {"least": 2}, None),  # chance decides
        (R(2, 1.5, 2.5), {"least": 2.6}, False),
        (R(2, 1.5, 2.5), {"least": 1, "most": 2}, None),
        (R(2, 1.5, 2.5), {"least": 1, "most": 1.2}, False),
        (R(2, 1.5, 2.5), {"least": 1.8, "most": 2.2, "by": "value"}, True),
        (R(2, 1.5, 2.5), {"least": 2.2, "by": "value"}, False),
        (R(2, 1.5, 2.5), {"least": 1.8, "most": 2.2, "by": "likely"}, True),  # its value is enough to meet,
        (R(2, 1.5, 2.5), {"least": 2.2, "by": "likely"}, None),  # its whole interval is needed to refute
        (R(2, None, None), {"least": 1}, None),  # one seed has no interval
        (R(2, None, None), {"least": 1, "by": "value"}, True),
        (Interval(0.0, 0.0), {"above": 0}, None),  # as good as the other is neither ahead nor behind
        (Interval(3.0, 1.0), {"below": 5}, True),
        (1.0, {"below": 1}, False),  # an exact number is never open
        (7, {"least": 5, "most": 9}, True),
        (4.9, {"least": 5}, False),
        (True, {"least": 5}, True),  # an order is no size
        (None, {"least": 5}, None),
        ([], {"least": 5}, None),
    ],
)
def test_one_value(found: Any, test: Any, met: bool | None) -> None:
    assert judged(found, **test) is met


YES, NO, OPEN = R(2, 1.5, 2.5), R(0.5, 0.4, 0.6), R(1.1, 0.9, 1.3)


@pytest.mark.parametrize(
    ("found", "test", "met"),
    [
        ([YES, YES], {}, True),
        ([YES, NO], {}, False),
        ([YES, OPEN], {}, None),
        ([YES, YES, NO], {"at": 2}, True),
        ([YES, OPEN, NO], {"at": 2}, None),
        ([YES, NO, NO], {"at": 2}, False),
        ([YES, YES, NO], {"at": 2, "floor": 1}, False),  # and worse at none
        ([YES, YES, OPEN], {"at": 2, "floor": 1}, True),
        ([YES], {"at": 3}, False),  # a short axis meets no three places
    ],
)
def test_places(found: Any, test: Any, met: bool | None) -> None:
    assert judged(found, least=1, **test) is met


def test_who_is_ahead_has_a_lead() -> None:
    test = {"ahead": "a", "of": ["b"], "figure": "ttft_s.p99"}
    verdicts = [judged(Interval(value, 1.0), **test) for value in (2.0, 0.5, -2.0)]
    assert verdicts == [True, None, False]


def test_values_without_a_test_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="key: values were measured"):
        judge(Answer("key", "text", 1.0), None)


numbers = st.floats(0.1, 10)


@given(st.lists(st.tuples(numbers, numbers, numbers).map(sorted), min_size=1, max_size=5), numbers, st.integers(1, 5))
def test_a_wider_bound_never_refutes(found: Any, bound: float, at: int) -> None:
    values = [R(middle, low, high) for low, middle, high in found]
    tight, wide = judged(values, least=bound, at=at), judged(values, least=bound / 2, at=at)
    assert tight is not True or wide is True
    assert wide is not False or tight is False


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ({}, "has no bound"),
        ({"least": 1, "figure": "ttft_s.p99"}, "names a figure without what is asked of it"),
        ({"least": 1, "times": ["a", "b"]}, "names a figure without"),
        ({"least": 1, "figure": "x", "times": ["a"]}, "compares other than two"),
        ({"least": 1, "figure": "x", "times": ["a", "b"], "peak": ["a", "b"]}, "names a figure without"),
    ],
)
def test_a_test_that_says_nothing_is_refused(test: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ClaimTest(**test)
