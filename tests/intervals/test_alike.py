"""The common part of the variance is that of the random effect which made the errors."""

from __future__ import annotations

import numpy as np
import pytest

from poise.intervals.alike import LEAST, common_part


@pytest.mark.parametrize("alike", [0.0, 0.3, 0.8])
def test_the_part_is_that_of_the_effect(alike: float) -> None:
    dice = np.random.default_rng(5)
    names = np.repeat(np.arange(4000), 5)
    errors = np.sqrt(alike) * dice.normal(size=4000)[names] + np.sqrt(1 - alike) * dice.normal(size=len(names))
    assert common_part(names.tolist(), errors) == pytest.approx(alike, abs=0.03)


def test_equal_errors_are_alike_whole_and_few_deployments_say_nothing() -> None:
    names = [at // 2 for at in range(2 * LEAST)]
    assert common_part(names, np.array([1.0 + each for each in names])) == pytest.approx(1.0)
    assert common_part(names[:-2], np.ones(2 * LEAST - 2)) == 0.0
    assert common_part(list(range(2 * LEAST)), np.ones(2 * LEAST)) == 0.0
