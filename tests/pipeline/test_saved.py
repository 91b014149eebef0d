"""Costs as files: what is written is read back, and what is none is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Costs
from poise.pipeline.saved import UNITS, costs_text, load_costs, load_seconds
from tests.depth import examples

TIMES = st.lists(st.fractions(Fraction(1, 7), 9), min_size=4, max_size=4)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("costs") / "costs.json"


@pytest.mark.deep
@settings(max_examples=examples(100))
@given(TIMES, TIMES, TIMES, st.lists(st.fractions(0, 3), min_size=4, max_size=4), st.booleans())
def test_what_is_written_is_read_back(
    file: Path, f: list[Fraction], b: list[Fraction], w: list[Fraction], comm: list[Fraction], shared: bool,
) -> None:  # fmt: skip
    costs = Costs.of(f, b, w, comm, r=f, s=b, barrier=comm[0], shared_copy=shared)
    file.write_text(costs_text(costs, unit="ms"))
    assert load_costs(file) == costs


def test_chunks_are_joined_to_full_stages() -> None:
    costs = Costs.of(f=[1, 2, 3, 4], b=[1, 1, 1, 1], w=2, comm=[5, 6]).whole(2)
    assert costs == Costs.of(f=[3, 7], b=[2, 2], w=2, comm=[5, 6])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1", "is no JSON"),
        ("[]", "holds no costs of a pipeline"),
        ('{"kind": "poise pipeline costs", "schema": 1, "f": [-1]}', "negative"),
        ('{"kind": "poise pipeline costs", "schema": 1, "f": ["x"]}', "is no number"),
    ],
)
def test_what_is_no_file_of_costs(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ScheduleError, match=message):
        load_costs(tmp_path / "x.json")


@given(TIMES, st.sampled_from(sorted(UNITS)))
def test_costs_are_read_in_seconds(file: Path, f: list[Fraction], unit: str) -> None:
    costs = Costs.of(f, f, f, 1, r=f, barrier=2)
    file.write_text(costs_text(costs, unit=unit))
    found = load_seconds(file)
    assert found.times(1 / UNITS[unit]) == costs
    assert found.f == tuple(each * UNITS[unit] for each in costs.f) and found.rank == costs.rank
