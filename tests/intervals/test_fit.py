"""The error model recovers what evidence was made of, and its intervals hold on groups that it has not seen."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from poise.intervals.conditions import Conditions
from poise.intervals.fit import Evidence, Seen, calibrate, folds
from poise.intervals.held_out import held_out, shares
from poise.intervals.ridge import Terms
from tests.intervals.made import made


def test_the_regression_is_that_of_all_rows_one_by_one() -> None:
    rows = [("a", "b"), ("a",), ("b", "c"), ("a", "b"), ("c",)]
    values, weights = np.array([1.0, 2.0, -1.0, 0.5, 3.0]), np.array([1.0, 0.5, 2.0, 1.5, 0.0])
    terms = Terms(rows, lambda name: 0.5 if name == "a" else 2.0)
    dense = np.array([[name in row for name in terms.names] for row in rows], dtype=float)
    doubt = np.diag([0.5 if name == "a" else 2.0 for name in terms.names])
    slow = np.linalg.solve(dense.T @ (weights[:, None] * dense) + doubt, dense.T @ (weights * values))
    found = terms.fit(values, weights)
    assert found[:-1] == pytest.approx(slow)
    assert terms.sums(found) == pytest.approx(dense @ slow)


def test_intervals_hold_on_sources_not_seen() -> None:
    (share,) = (each for each in shares(held_out(made(60)), lambda _: "") if each.by == "source")
    assert share.rows == 60 * 40
    assert 0.75 <= share.held[0] <= 0.87
    assert 0.86 <= share.held[1] <= 0.95


def test_the_width_is_that_of_both_chances() -> None:
    calibration = calibrate(made(80, 20))
    interval = calibration.interval(Conditions("tpot", model="new", device="new"))
    normal = 2 * 1.2816 * sqrt(0.15**2 + 0.1**2)  # of 80 %, in logarithms
    assert np.log(interval.width) == pytest.approx(normal, rel=0.25)


def test_a_bias_moves_the_middle() -> None:
    rows = [row._replace(log=row.log + 0.5) for row in made()]
    assert calibrate(rows).interval(Conditions("tpot", model="x", device="x")).factor(0.5) == pytest.approx(
        np.exp(0.5), rel=0.1
    )


def test_what_was_seen_moves_the_middle_towards_its_own() -> None:
    rows = made()
    slow = [Seen(Conditions("tpot", model="slow", device="d0"), f"t{at % 3}", 1.0) for at in range(60)]
    calibration = calibrate([*rows, *slow])
    seen, new = (calibration.interval(Conditions("tpot", model=name, device="d0")) for name in ("slow", "new"))
    assert seen.factor(0.5) > 1.5 > new.factor(0.5)
    assert not any("slow" in name for name in seen.unseen)
    assert "tpot model new" in new.unseen


def test_throughput_is_the_inverse_of_time() -> None:
    rows = [row._replace(log=row.log + 0.3) for row in made()]
    flow = [row._replace(conditions=replace(row.conditions, figure="throughput")) for row in rows]
    time_, rate = (
        calibrate(each).interval(Conditions(each[0].conditions.figure, model="x", device="x")) for each in (rows, flow)
    )
    assert rate.factor(0.1) == pytest.approx(1 / time_.factor(0.9))


def test_a_fold_has_whole_groups_and_every_row_is_left_out_once() -> None:
    rows = made(13, 7)
    every = np.ones(len(rows), dtype=bool)
    out = np.array(list(folds(rows, lambda row: row.source, every)))
    assert (out.sum(axis=0) == 1).all()
    for source in {row.source for row in rows}:
        mine = np.array([row.source == source for row in rows])
        assert {tuple(fold[mine].tolist()) for fold in out} <= {(True,) * 7, (False,) * 7}


def test_rows_left_out_do_not_count() -> None:
    rows = made(10, 20)
    other = [row._replace(log=5.0) if row.source == "s3" else row for row in rows]
    kept = np.array([row.source != "s3" for row in rows])
    one, two = (Evidence(each).fit(kept) for each in (rows, other))
    assert one.quantiles == pytest.approx(two.quantiles)
    assert one.middle == pytest.approx(two.middle)
