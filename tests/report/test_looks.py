"""Intervals of a series that is looked at several times hold at whichever look it ends."""

from __future__ import annotations

import numpy as np
import pytest

from poise.core.errors import UserError
from poise.report.intervals import over_seeds
from poise.report.looks import looks, times
from poise.report.seeds import mean
from poise.report.shares import score

SERIES = 1500
SIZE = 50


@pytest.mark.parametrize("most", [2, 5, 6, 10, 30, 100, 1000])
def test_the_looks_share_the_error(most: int) -> None:
    found = looks(most)
    assert sum(1 - look.confidence for look in found) == pytest.approx(0.05)
    counts = [look.seeds for look in found]
    assert counts == sorted(set(counts)) and counts[-1] == most and counts[0] == min(5, most)


def test_one_look_is_the_usual_interval() -> None:
    assert looks(5)[0].confidence == pytest.approx(0.95)
    with pytest.raises(UserError, match="seeds = 1: an interval needs two or more"):
        looks(1)


def side(shares: list[float], goal: float) -> int:
    """On which side of the goal a series ends with the share, 0 for neither."""
    for look in looks(len(shares)):
        own = shares[: look.seeds]
        found = score(over_seeds(own, look.confidence), [mean(own)], float(SIZE * look.seeds), look.confidence)
        assert found.half is not None
        if abs(mean(own) - goal) > found.half:
            return 1 if mean(own) > goal else -1
    return 0


@pytest.mark.parametrize("spread", [0.0, 0.3], ids=["independent", "seeds differ"])
@pytest.mark.parametrize("goal", [0.9, 0.99])
def test_a_share_that_is_the_goal_is_seldom_judged_off_it(goal: float, spread: float) -> None:
    """The worst case: any decision about a share that is exactly the goal is wrong; 5 % of the series may make one."""
    rng = np.random.default_rng(1)
    concentration = 20 / spread if spread else None
    wrong = 0
    for _ in range(SERIES):
        own = (
            np.full(30, goal)
            if concentration is None
            else rng.beta(goal * concentration, (1 - goal) * concentration, 30)
        )
        wrong += side((rng.binomial(SIZE, own) / SIZE).tolist(), goal) != 0
    assert wrong / SERIES <= 0.05, "of a fixed generator: this repeats"


def test_a_share_that_is_off_the_goal_is_found_out() -> None:
    rng = np.random.default_rng(2)
    for share, wanted in ((1.0, 1), (0.999, 1), (0.9, -1)):
        found = [side((rng.binomial(SIZE, share, 30) / SIZE).tolist(), 0.99) for _ in range(200)]
        assert found.count(wanted) >= 190


def test_what_would_decide() -> None:
    assert times(0.98, 0.02, 0.99) == pytest.approx(4.0)
    assert times(1.0, 0.02, 0.99) == pytest.approx(2.0), "around a share of 1 widths fall with the number itself"
    assert times(0.98, 0.001, 0.99) == 1.0
    assert times(0.99, 0.01, 0.99) is None
