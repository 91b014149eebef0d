"""Comparisons, searches and stores of a world that is a plain function."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from poise.core.errors import PoiseError, UserError
from poise.experiment.compare import Comparison, compare
from poise.experiment.fill import fill
from poise.experiment.progress import silent
from poise.experiment.store import Store, check_same
from poise.report.intervals import EXACT

from .worlds import certain, experiment


def test_differences_are_paired_by_seed() -> None:
    """All cases of a seed meet the same chance, so their differences have none, and each of them has."""
    found = compare(experiment())
    gap = found.interval("slope 2", "cost", 2.0, against="slope 1")
    assert gap.value == pytest.approx(2.0) and gap.half == pytest.approx(0.0, abs=1e-12)
    own = found.interval("slope 2", "cost", 2.0).half
    assert own is not None and own > 0.01
    assert found.best(2.0).winner == "slope 1"


def test_without_chance_a_difference_is_exact() -> None:
    found = compare(experiment(certain, chance=False))
    gap = found.interval("slope 3", "cost", 1.0, against="slope 1")
    assert (gap.value, gap.half, gap.why) == (2.0, 0.0, EXACT)
    assert str(found.best(1.0)) == "Best by Cost: slope 1 (the next is slope 2, 1 away)."


def test_seeds_that_change_nothing_are_no_interval() -> None:
    found = compare(experiment(certain))
    assert found.interval("slope 1", "cost").half is None and found.best(1.0).winner is None


def test_unknown_names_are_reported() -> None:
    found = compare(experiment())
    with pytest.raises(UserError, match="no result of 'slope 9' at setting 1; give one of slope 1, slope 2, slope 3"):
        found.interval("slope 9", "cost")
    with pytest.raises(UserError, match="did you mean cost"):
        found.interval("slope 1", "costs")
    with pytest.raises(UserError, match="known are cost"):
        found.interval("slope 1", "part.size")  # more of it is neither better nor worse


class Held(NamedTuple):
    at: float
    why: str
    sure: bool


def test_a_search_closes_in_on_where_each_case_breaks_down() -> None:
    def holds(found: Comparison, case: str, at: float) -> Held:
        cost = found.interval(case, "cost", at).value
        assert cost is not None
        return Held(at, "" if cost <= 7.5 else "too dear", True)

    found = compare(experiment(certain, chance=False), holds=holds)
    rest = float(certain(found.study.case("slope 1", 0.0), 0)["cost"])
    for slope in (1, 2, 3):
        assert found.thresholds[f"slope {slope}"].at == pytest.approx((7.5 - rest) / slope, rel=0.02)


@pytest.mark.parametrize(("back", "message"), [([1, 2, 2], "2 came back"), ([1, 7], "7 came back")])
def test_a_cell_that_comes_twice_or_was_not_requested_is_a_fault(back: list[int], message: str) -> None:
    class Careless:
        def work(self, tasks: Any, done: Any) -> None:
            for each in back:
                done(each)

    with pytest.raises(PoiseError, match=message):
        fill("cells", [1, 2], lambda key: False, iter, Careless(), lambda came: came, silent)  # type: ignore[arg-type]


def test_a_store_tells_apart_what_is_alike(tmp_path: Path) -> None:
    names = ("a b", "a_b", "a.b")
    store = Store(tmp_path, dict.fromkeys(names, "print"))
    for number, name in enumerate(names):
        store.write((1.0, name, 0), {"number": number})
    for number, name in enumerate(names):
        kept = store.read((1.0, name, 0))
        assert kept is not None and kept.fields["number"] == number
    assert store.finished() == 3


def test_cells_of_other_conditions_are_refused_or_renewed(tmp_path: Path) -> None:
    Store(tmp_path, {"a": "one"}).write((1.0, "a", 0), {})
    with pytest.raises(UserError, match="is a cell of another a"):
        Store(tmp_path, {"a": "two"}).read((1.0, "a", 0))
    assert Store(tmp_path, {"a": "two"}, renews=True).read((1.0, "a", 0)) is None
    with pytest.raises(UserError, match=r"\(model.layers was 2 and is 3\)"):
        check_same(tmp_path, {"model": {"layers": 2}}, {"model": {"layers": 3}})
