"""How often intervals hold, and those that own rows narrowed: exact where errors are alike as stated."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from poise.intervals.calibration import Calibration
from poise.intervals.conditions import Conditions
from poise.intervals.fit import Seen
from poise.intervals.held_out import OWN, Held, OwnShare, own_shares, shares
from poise.intervals.interval import LEVELS, Interval
from poise.intervals.own import ALIKE

STATED = Interval(tuple(NormalDist().inv_cdf(level) for level in LEVELS))
"""The interval of a standard normal error, which all rows of `found` have, each by itself."""


def found(alike: float, stated: float, deployments: int = 400, each: int = 14) -> list[OwnShare]:
    """Shares of deployments whose errors have `alike` of their variance in common, where `stated` is believed."""
    chance = np.random.default_rng(1)
    held = [
        Held(Seen(Conditions("tpot", model=f"m{at}"), "s", float(log)), "source", STATED)
        for at in range(deployments)
        for log in chance.normal(0, alike**0.5) + chance.normal(0, (1 - alike) ** 0.5, each)
    ]
    return own_shares(held, Calibration({}, {}, {}, own={"tpot": {ALIKE: stated}}))


def test_narrowed_intervals_hold_as_often_as_they_state_where_errors_are_as_alike_as_stated() -> None:
    shares = found(0.5, 0.5)
    assert [each.own for each in shares] == list(OWN)
    for each in shares:
        assert each.held == pytest.approx((0.8, 0.9), abs=0.02)
        assert each.deployments == 400


def test_they_hold_less_often_where_errors_are_less_alike() -> None:
    assert all(each.held[0] < 0.7 for each in found(0.2, 0.8))


def test_deployments_with_too_few_rows_and_figures_without_a_common_part_are_left_out() -> None:
    assert [each.own for each in found(0.5, 0.5, 30, 4)] == [1, 3]
    assert not own_shares([Held(Seen(Conditions("ttft"), "s", 0.0), "source", STATED)] * 5, Calibration({}, {}, {}))


def test_a_large_sweep_counts_as_one_where_sources_count_alike() -> None:
    missed = [Held(Seen(Conditions("tpot", model="m"), "small", 9.0), "source", STATED)]
    kept = [Held(Seen(Conditions("tpot", model="m"), "large", 0.0), "source", STATED)] * 9
    (by_rows,) = shares([*missed, *kept], lambda each: "tpot")
    (by_sources,) = shares([*missed, *kept], lambda each: "tpot", alike=True)
    assert by_rows.held == pytest.approx((0.9, 0.9)) and by_sources.held == pytest.approx((0.5, 0.5))
