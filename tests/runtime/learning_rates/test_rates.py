"""Learning-rate schedules against their closed forms."""

from __future__ import annotations

import json
from math import cos, pi, sqrt
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.runtime.learning_rates import Constant, Cosine, Linear, Plan, Rate, Uba, Wsd, refined
from poise.runtime.learning_rates.read import OPTIONS, read_rate
from poise.runtime.learning_rates.refined import medians, norms_of

part = st.floats(0, 1)


@given(part, part)
def test_closed_forms(done: float, end: float) -> None:
    assert Linear(end).at(done) == pytest.approx(1 - done + end * done)
    assert Cosine(end).at(done) == pytest.approx(end + (1 - end) * (1 + cos(pi * done)) / 2)
    assert Wsd(1.0, "linear", end).at(done) == pytest.approx(Linear(end).at(done))
    assert Wsd(0.5, "sqrt").at(done) == pytest.approx(1 - sqrt(max(0.0, 2 * done - 1)))
    assert Constant().at(done) == 1


@given(part, st.floats(0.05, 20), st.floats(0.05, 20))
def test_uba_is_the_cosine_at_two_and_ordered_by_phi(done: float, one: float, two: float) -> None:
    assert Uba(2.0).at(done) == pytest.approx(Cosine().at(done), abs=1e-12)
    assert Uba(one).at(0.0) == pytest.approx(1) and Uba(one).at(1.0) == pytest.approx(0)
    low, high = sorted((one, two))
    assert Uba(high).at(done) <= Uba(low).at(done) + 1e-12


@pytest.mark.parametrize(("phi", "quarters"), [(0.5, (0.96, 0.80, 0.41)), (5.0, (0.70, 0.29, 0.06))])
def test_uba_at_the_quarters(phi: float, quarters: tuple[float, ...]) -> None:
    assert [round(Uba(phi).at(done), 2) for done in (0.25, 0.5, 0.75)] == list(quarters)


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=30), st.integers(1, 20))
def test_medians_are_those_of_reflected_neighbours(values: list[float], width: int) -> None:
    half, count = width // 2, len(values)
    line = (values + values[::-1]) * (2 * half + 2)
    line = line[-2 * count * (half + 1) :] + line
    begin = 2 * count * (half + 1)
    expected = [median(line[begin + at - half : begin + at + half + 1]) for at in range(count)]
    assert medians(values, width) == expected


@given(st.integers(2, 60), st.sampled_from([1, 2]), st.floats(0.01, 100))
def test_constant_norms_give_linear_decay(steps: int, power: int, norm: float) -> None:
    found = refined([norm] * steps, power).factors
    assert found == pytest.approx([1 - step / (steps - 1) for step in range(steps)], abs=1e-9)


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=20), st.sampled_from([1, 2]))
def test_refined_is_the_papers_sum(norms: list[float], power: int) -> None:
    weights = [each**-power for each in norms]
    raw = [weight * sum(weights[at + 1 :]) for at, weight in enumerate(weights)]
    assert refined(norms, power, smoothing=0.0).factors == pytest.approx([each / max(raw) for each in raw])


def test_large_first_norms_give_a_warm_up_and_large_last_ones_an_earlier_decay() -> None:
    early = refined([10.0] * 10 + [1.0] * 90, 2).factors
    late = refined([1.0] * 90 + [3.0] * 10, 2).factors
    assert max(early[:5]) < 0.1 and max(early) == early[max(range(100), key=early.__getitem__)] == 1.0
    assert late[95] < refined([1.0] * 100, 2).factors[95] / 5


@given(st.integers(1, 40), st.integers(0, 20), part)
def test_warm_up_rises_to_the_peak_in_equal_parts(steps: int, warmup: int, end: float) -> None:
    plan = Plan(Linear(end), steps + warmup, warmup)
    factors = [plan.factor(step) for step in range(steps + warmup)]
    assert factors[:warmup] == [(step + 1) / warmup for step in range(warmup)]
    assert factors[warmup:] == pytest.approx([Linear(end).at(step / steps) for step in range(steps)])


def test_refined_runs_of_the_same_length_take_each_factor(tmp_path: Path) -> None:
    norms = [3.0, 1.0, 2.0, 5.0, 4.0]
    file = tmp_path / "metrics.jsonl"
    file.write_text("".join(json.dumps({"gradient_l1": each, "gradient_l2": 9.0}) + "\n" for each in norms))
    rate = read_rate(f"refined:norms={file},smoothing=0", "adamw")
    plan = Plan(rate, 5)
    assert [plan.factor(step) for step in range(5)] == pytest.approx(list(refined(norms, 1, 0.0).factors))
    constant = read_rate(f"refined:norms={file}", "sgd")
    assert constant.at(0.4) == pytest.approx(0.5)


def same(one: Rate, two: Rate) -> bool:
    return all(one.at(each / 16) == two.at(each / 16) for each in range(17))


def test_written_forms() -> None:
    assert same(read_rate("wsd:decay=0.5,shape=linear,end=0.1", "adamw"), Wsd(0.5, "linear", 0.1))
    assert same(read_rate("uba:phi=0.5", "sgd"), Uba(0.5)) and same(read_rate("constant", "sgd"), Constant())
    assert set(OPTIONS) == {"constant", "linear", "cosine", "wsd", "uba", "refined"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("sawtooth", "--lr-schedule sawtooth: there is no such schedule; give one of constant, linear"),
        ("cosine:phi=1", "cosine has no setting phi; its settings are: end"),
        ("linear:end=2", "end must be a number of at least 0 and at most 1"),
        ("uba:phi=0", "phi must be a number above 0"),
        ("wsd:decay=x", "decay must be a number above 0 and at most 1"),
        ("wsd:shape=round", "shape round is not known; give sqrt or linear"),
        ("refined", "it needs the metrics of a run before"),
    ],
)
def test_faults(text: str, error: str) -> None:
    with pytest.raises(UserError) as caught:
        read_rate(text, "adamw")
    assert error in str(caught.value)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, "cannot be read"),
        ('{"loss": 1}\n', "has lines without gradient_l1"),
        ('{"gradient_l1": 1}\n', "needs two steps or more"),
        ("no json\n", "has lines without gradient_l1"),
    ],
)
def test_files_of_norms_are_checked(tmp_path: Path, content: str | None, error: str) -> None:
    file = tmp_path / "metrics.jsonl"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UserError, match=error):
        norms_of(file, "gradient_l1")
