"""Formulas over figures: what each part gives, checked by hand, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poise.claims.answer import Ratio
from poise.claims.experiments.formula import evaluated, figures, in_words, parsed
from poise.claims.experiments.runs import Ran
from poise.core.errors import UserError
from poise.report.intervals import Interval

LOAD = Ran(
    ["a", "b"],
    [1.0, 2.0, 4.0],
    {
        ("a", place, "ttft_s.p99"): values
        for place, values in zip((1.0, 2.0, 4.0), ([1.0, 2.0], [2.0, 4.0], [8.0, 8.0]), strict=True)
    }
    | {("b", place, "ttft_s.p99"): [2.0, 4.0] for place in (1.0, 2.0, 4.0)},
)
RATE = Ran(["a", "b"], [0.0], {("a", 0.0, ""): [3.0, 5.0], ("b", 0.0, ""): [6.0, 10.0]})


def found(text: str, **lets: str) -> Any:
    return evaluated(parsed(text), {"load": LOAD, "rate": RATE, **{name: parsed(each) for name, each in lets.items()}})


A, B = "load['a'].ttft_s.p99", "load['b'].ttft_s.p99"


def test_means_are_over_seeds_at_each_place() -> None:
    assert found(f"mean({A})") == [1.5, 3.0, 8.0]
    assert found(f"mean({A}[2])") == [3.0]
    assert found(f"mean({A}[1:])") == [3.0, 8.0]
    assert found(f"mean({A})[2]") == 8.0
    assert found("mean(load.ttft_s.p99)") == [1.5, 3.0, 8.0, 3.0, 3.0, 3.0]  # all labels after one another


def test_a_ratio_is_of_the_first_to_the_second_seed_by_seed() -> None:
    first, second, _ = found(f"ratio({B}, {A})")
    assert isinstance(first, Ratio) and first.value == pytest.approx(2)
    assert second.value == pytest.approx(1) == second.low == second.high
    (rate,) = found("ratio(rate['b'], rate['a'])")
    assert rate.value == pytest.approx(2)
    assert [each.value for each in found(f"ratio({A}, {A}[1])")] == pytest.approx([1, 2, 32**0.5])  # one place for all


def test_arithmetic_goes_seed_by_seed() -> None:
    lead = found(f"over({B} - {A})")
    assert [each.value for each in lead] == [1.5, 0.0, -5.0]
    assert all(isinstance(each, Interval) for each in lead)
    assert found(f"mean({A} / 2 + 1)") == [1.75, 2.5, 5.0]
    assert found(f"mean({A}) ** 2") == [2.25, 9.0, 64.0]
    assert found(f"lowest({B} - {A})") == [1.0, 0.0, -6.0]


def test_numbers_of_lists_are_summed_counted_and_ordered() -> None:
    assert found(f"max(mean({A}), mean({B}))") == 8.0
    assert found(f"min(ratio({B}, {A}))") == pytest.approx(8**0.5 / 8)
    assert found(f"count(mean({A}) < mean({B}))") == 1.0
    assert found(f"[mean({A})[0], mean({B})[1:]]") == [1.5, 3.0, 3.0]
    assert found("rises([1, 2, 3]) and not falls([1, 2, 2]) and never_rises([2, 2, 1])") is True
    assert found("never_falls([1, 1, 2]) and not rises([1, 1, 2])") is True
    assert found("inside([1, 3, 2])") is True and found("inside([1, 2, 3])") is False
    assert found("abs([0 - 1, 2])") == [1.0, 2.0]
    assert found("sum([1, 2])") == 3.0


def test_a_plain_answer_may_be_open() -> None:
    assert found("True if 1 < 2 <= 2 else None") is True
    assert found("True if 2 < 1 else None") is None
    assert in_words(None) == "too close to say" and in_words(True) == "yes"


def test_whether_one_is_beyond_another_is_open_within_both_intervals() -> None:
    low, high, wide = Interval(1.0, 0.1), Interval(2.0, 0.1), Interval(1.5, 5.0)
    from poise.claims.experiments.formula import FUNCTIONS

    assert FUNCTIONS["beyond"]([high, low, wide], [low, high, low]) == [True, False, None]


def test_the_last_place_that_keeps_a_bound() -> None:
    assert found(f"until({A}, 3)") == 2.0
    assert found(f"until({A}, 1)") == 0.0
    assert found(f"carried({A}, 2)") == 2.0  # twice the mean at the first place


def test_places_of_all_rows_are_pooled_by_their_geometric_mean_or_sum() -> None:
    (one,) = found(f"mean(pooled({A}, {B}))")
    seeds = [(1 * 2 * 8 * 2 * 2 * 2) ** (1 / 6), (2 * 4 * 8 * 4 * 4 * 4) ** (1 / 6)]
    assert one == pytest.approx(np.mean(seeds))
    assert found(f"mean(total({A}))") == [12.5]
    assert found(f"greatest(ratio({B}, {A}), ratio({A}, {B}))").value == pytest.approx(8 / 8**0.5)


def test_a_formula_may_name_another() -> None:
    assert found("gain[2]", gain=f"mean({A})") == 8.0


def test_the_figures_of_a_formula_are_known_beforehand() -> None:
    assert figures(parsed(f"max({A}[2]) + mean(load.span_s) + gain")) == {("load", "ttft_s.p99"), ("load", "span_s")}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("max(", "is no formula"),
        ("more(1)", "'more' is no function of a formula; give one of"),
        ("lode['a'].x", "'lode' is unknown to the formula; give one of load, rate"),
        ("mean(load['c'].ttft_s.p99)", "'c' is no label; give one of a, b"),
        (f"mean({A}[3])", "3 is no place of the axis; give one of 1.0, 2.0, 4.0"),
        (A, "ends in a figure of every seed; take its mean"),
        ("[each for each in load]", "has no place in a formula"),
        ("lambda: 1", "has no place in a formula"),
        ("__import__('os').system('true')", "is no function of a formula"),
        ("(1).real", "is no figure; give it of a table"),
    ],
)
def test_what_is_no_formula_is_refused_with_a_cure(text: str, why: str) -> None:
    with pytest.raises(UserError) as error:
        found(text)
    assert why in str(error.value)
