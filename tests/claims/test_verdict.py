"""The verdict follows from the criteria, and from what is lacking of the paper's conditions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.claims.claim import Criterion, Outcome, verdict

YES, NO, WHO_KNOWS = True, False, None
MORE = Criterion(asks="more", paper="twice as much")


def outcomes(headlines: Any, others: Any = ()) -> list[Outcome]:
    results = [(met, True) for met in headlines] + [(met, False) for met in others]
    return [Outcome(str(key), MORE, headline, "", met) for key, (met, headline) in enumerate(results)]


@pytest.mark.parametrize(
    ("headlines", "others", "expected", "lacking"),
    [
        ([YES], [], "holds", "holds"),
        ([YES, YES], [YES], "holds", "holds"),
        ([YES, YES], [NO], "holds in part", "holds in part"),
        ([YES], [WHO_KNOWS], "holds in part", "holds in part"),
        ([YES, NO], [YES], "holds in part", "holds in part"),
        ([YES, WHO_KNOWS], [], "holds in part", "holds in part"),
        ([NO], [], "does not hold", "not tested here"),
        ([NO, WHO_KNOWS], [], "does not hold", "not tested here"),
        ([NO, NO], [YES, YES], "does not hold", "not tested here"),
        ([WHO_KNOWS], [], "not tested here", "not tested here"),
        ([WHO_KNOWS, WHO_KNOWS], [YES, NO], "not tested here", "not tested here"),
        ([], [], "not tested here", "not tested here"),
        ([], [YES], "not tested here", "not tested here"),
    ],
)
def test_table(headlines: Any, others: Any, expected: str, lacking: str) -> None:
    assert verdict(outcomes(headlines, others)) == expected
    assert verdict(outcomes(headlines, others), "its devices") == lacking


some = st.lists(st.sampled_from([YES, NO, WHO_KNOWS]), max_size=5)


@given(some, some, st.sampled_from(["", "its devices"]))
def test_properties(headlines: Any, others: Any, lacking: str) -> None:
    judged = outcomes(headlines, others)
    text = verdict(judged, lacking)
    assert text == verdict(judged[::-1], lacking)  # the order says nothing
    assert (text == "holds") == (bool(headlines) and all([*headlines, *others]))
    if text == "does not hold":  # only under the paper's conditions
        assert not any(headlines) and False in headlines and not lacking
    if text == "holds in part":
        assert any(headlines) and not all([*headlines, *others])
