"""The verdict follows from the criteria and from nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.claims.claim import Criterion, verdict

YES, NO, WHO_KNOWS = True, False, None


def criteria(headlines: Any, others: Any = ()) -> list[Criterion]:
    told = [Criterion("", "", "", met, headline=True) for met in headlines]
    return told + [Criterion("", "", "", met) for met in others]


@pytest.mark.parametrize(
    ("headlines", "others", "said"),
    [
        ([YES], [], "holds"),
        ([YES, YES], [YES], "holds"),
        ([YES, YES], [NO], "holds in part"),
        ([YES], [WHO_KNOWS], "holds in part"),
        ([YES, NO], [YES], "holds in part"),
        ([YES, WHO_KNOWS], [], "holds in part"),
        ([NO], [], "fails"),
        ([NO, WHO_KNOWS], [], "fails"),
        ([NO, NO], [YES, YES], "fails"),
        ([WHO_KNOWS], [], "not testable"),
        ([WHO_KNOWS, WHO_KNOWS], [YES, NO], "not testable"),
        ([], [], "not testable"),
        ([], [YES], "not testable"),
    ],
)
def test_table(headlines: Any, others: Any, said: str) -> None:
    assert verdict(criteria(headlines, others)) == said


outcomes = st.lists(st.sampled_from([YES, NO, WHO_KNOWS]), max_size=5)


@given(outcomes, outcomes)
def test_properties(headlines: Any, others: Any) -> None:
    told = criteria(headlines, others)
    said = verdict(told)
    assert said == verdict(told[::-1])  # the order says nothing
    assert (said == "holds") == (bool(headlines) and all([*headlines, *others]))
    if said == "fails":
        assert not any(headlines) and False in headlines
    if said == "holds in part":
        assert any(headlines) and not all([*headlines, *others])
