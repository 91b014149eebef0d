"""Who is better: a winner, those that are equal within their intervals, and those that cannot be judged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.report.figures import ATTAINMENT, DECIDING, TTFT, deciding
from poise.report.intervals import TOO_SHORT, Interval
from poise.report.seeds import CONFIDENCE
from poise.report.verdict import Length, Verdict, judge

P99 = TTFT[4]


def judged(figure, values, half, length=None):
    """The verdict where every difference is known to within `half`, or to what `half` gives for a pair."""
    widths = half if callable(half) else lambda base, other: half
    return judge(figure, values, lambda a, b, _: Interval(values[b] - values[a], widths(a, b), TOO_SHORT), length)


def test_the_best_is_the_lowest_or_the_highest_as_the_figure_has_it():
    assert judged(P99, {"a": 2.0, "b": 1.0}, 0.1).winner == "b"
    assert judged(ATTAINMENT, {"a": 0.9, "b": 0.5}, 0.1).winner == "a"


def test_a_clear_verdict_says_how_far_the_next_one_is():
    text = str(judged(P99, {"slow": 2.0, "fast": 1.0, "next": 1.5}, 0.1))
    assert text == "Best by TTFT p99: fast (the next is next, 500 ms ± 100 ms away)."


def test_what_lies_within_chance_is_indistinguishable_and_it_says_what_it_would_take():
    verdict = judged(P99, {"a": 1.0, "b": 1.1, "c": 9.0}, 0.2)
    assert (verdict.best, verdict.winner, verdict.tied, verdict.unknown) == ("a", None, ("b",), ())
    assert str(verdict) == (
        "Indistinguishable at this length by TTFT p99: a, b "
        "(equal to within 300 ms; about 4 times as many requests might tell them apart)."
    )
    equal = str(judged(P99, {"a": 1.0, "b": 1.0}, 0.2))
    assert equal == "Indistinguishable at this length by TTFT p99: a, b (equal to within 200 ms)."


@pytest.mark.parametrize(
    ("length", "much"),
    [
        (Length(3000, 5), "20 seeds in place of 5"),
        (Length(3000), "12,000 requests in place of 3,000"),
        (Length(3000, 5, recorded=True), "12,000 requests in place of 3,000"),
        (Length(777, 1, recorded=True), "3,100 requests in place of 777"),
    ],
)
def test_what_would_decide_is_given_in_seeds_or_requests(length, much):
    text = str(judged(P99, {"a": 1.0, "b": 1.1}, 0.199999, length))
    assert text.endswith(f"; about {much} might tell them apart).")


@pytest.mark.parametrize(
    ("length", "cure"),
    [
        (Length(30), "5 seeds might decide"),
        (Length(30, 2), "longer runs might decide"),
        (Length(30, 1, recorded=True), "a recording several times as long might decide"),
    ],
)
def test_where_there_is_no_verdict_it_names_the_cure(length, cure):
    text = str(judged(P99, {"a": 1.0, "b": 5.0}, lambda *_: None, length))
    assert text == f"No verdict by TTFT p99 between a and b: too short to say; {cure}."


def test_a_difference_without_interval_is_no_verdict():
    verdict = judged(P99, {"a": 1.0, "b": 5.0}, lambda *_: None)
    assert (verdict.winner, verdict.unknown) == (None, ("b",))
    assert str(verdict) == "No verdict by TTFT p99 between a and b: too short to say."


@pytest.mark.parametrize("values", [{}, {"a": 1.0}, {"a": 1.0, "b": None}])
def test_one_result_has_none_to_be_better_than(values):
    verdict = judged(P99, values, 0.1)
    assert verdict == Verdict(P99) and str(verdict) == "" and verdict.as_dict()["best"] is None


@given(st.dictionaries(st.text(min_size=1), st.floats(0, 1e3), min_size=2, max_size=6), st.floats(0, 10))
def test_everyone_is_the_best_beaten_or_tied(values, half):
    verdict = judged(P99, values, half)
    beaten = {name for name in values if values[name] - min(values.values()) > half}
    assert set(values) == {verdict.best, *verdict.tied} | beaten
    assert not beaten & {verdict.best, *verdict.tied}


def test_many_comparisons_ask_more_of_each():
    """Bonferroni: with k results each difference is asked for at 1 − 5 %/(k − 1)."""
    requests = []
    for count in (2, 3, 11):
        judge(P99, {str(at): 1.0 for at in range(count)}, lambda a, b, c: requests.append(c) or Interval(0.0, 1.0))
    assert requests[0] == pytest.approx(CONFIDENCE) and requests[1] == pytest.approx(0.975) and requests[-1] == 0.995


def test_the_deciding_figures_have_a_better_side_and_near_names_help():
    assert all(figure.better in ("more", "less") for figure in DECIDING.values())
    assert deciding("ttft_s.p99") is P99
    with pytest.raises(UserError, match=r"'ttft.p99' is not a figure .* did you mean ttft_s.p99"):
        deciding("ttft.p99")
