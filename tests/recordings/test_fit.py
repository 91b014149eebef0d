"""The regression: exact where the rows are, honest where they do not tell."""

from __future__ import annotations

import numpy as np
import pytest

from poise.core.units import SECOND
from poise.cost.fitted import COEFFICIENTS
from poise.recordings.fit import FitRows, regress, rows_of, standard_errors
from poise.recordings.runs import Floats

TRUE = np.array([0.008, 30e-6, 4e-9, 2e-4, 40e-9])
NOTHING = np.zeros(5)


def some(rows: int, seed: int = 0, noise: float = 0.0) -> FitRows:
    """Rows with sums of every size, half of each kind."""
    draw = np.random.default_rng(seed)
    steps = draw.integers(1, 300, rows)
    tokens, decodes, kept = draw.integers(10, 5000, rows), draw.integers(0, 60, rows), draw.integers(0, 10**5, rows)
    x = np.stack([steps, tokens, tokens * draw.integers(1, 3000, rows), steps * decodes, steps * kept], axis=1)
    y = x @ TRUE * (1 + noise * draw.standard_normal(rows))
    return FitRows(x.astype(float), y, np.arange(rows) % 2, np.arange(rows) * SECOND)


def apart(found: Floats) -> float:
    return float(np.abs(found / TRUE - 1).max())


def test_rows_without_noise_give_the_coefficients() -> None:
    fit = regress(some(200), NOTHING)
    assert fit.free.all() and apart(fit.values) < 1e-9


def test_what_lies_far_off_hardly_counts() -> None:
    clean, rows = some(1000, noise=0.01), some(1000, noise=0.01)
    rows.y[::20] /= 5
    moved = regress(rows, NOTHING).values - regress(clean, NOTHING).values
    assert np.abs(clean.x @ moved / clean.y).max() < 0.02
    plain = np.linalg.lstsq(rows.x / rows.y[:, None], np.ones(1000), rcond=None)[0]
    assert np.median(np.abs(clean.x @ plain / clean.y - 1)) > 0.1, "which is what else would happen"


@pytest.mark.parametrize("prior", [NOTHING, np.array([1.0, 1.0, 1.0, 3e-4, 90e-9])])
def test_a_constant_load_does_not_tell_a_step_from_its_decodes(prior: Floats) -> None:
    rows = some(400)
    rows.x[:, 3], rows.x[:, 4] = 30 * rows.x[:, 0], 5000 * rows.x[:, 0]
    rows.y[:] = rows.x @ TRUE
    fit = regress(rows, prior)
    assert fit.free.tolist() == [True, True, True, False, False]
    assert fit.values[3:].tolist() == prior[3:].tolist()
    assert fit.values[0] == pytest.approx(max(TRUE[0] + 30 * (TRUE - prior)[3] + 5000 * (TRUE - prior)[4], 0), rel=1e-6)
    assert np.abs(rows.x @ fit.values / rows.y - 1).max() < 1e-6


def test_what_never_happened_is_not_fitted() -> None:
    rows = some(200)
    rows.x[:, 2] = 0
    assert regress(rows, NOTHING).free.tolist() == [True, True, False, True, True]


def test_standard_errors_are_those_of_many_draws() -> None:
    """Independent rows, so blocks of time change nothing: the spread over draws is what each draw says of itself."""
    draws = [some(1000, seed, noise=0.05) for seed in range(40)]
    fits = [regress(rows, NOTHING) for rows in draws]
    spread = np.std([fit.values for fit in fits], axis=0, ddof=1)
    errors = [standard_errors(rows, fit, NOTHING) for rows, fit in zip(draws[:3], fits, strict=False)]
    for at in range(len(COEFFICIENTS)):
        known = [error for each in errors if (error := each[at]) is not None]
        assert len(known) >= 2
        # A spread of 40 is good to 11 %, a mean of two or three with 300 resamples each to 4 %.
        assert np.mean(known) == pytest.approx(spread[at], rel=0.35)


def test_rows_without_time_or_of_one_instant() -> None:
    rows = rows_of(
        np.ones((3, 5)), np.array([0, 2 * SECOND, 5]), 1, np.zeros(3, np.int64), np.array([True, True, False])
    )
    assert rows.y.tolist() == [2.0] and rows.group.tolist() == [1]
    assert standard_errors(rows, regress(rows, NOTHING), NOTHING) == [None] * 5


def test_bursts_do_not_outweigh_the_rest() -> None:
    """An engine under pressure delivers some answers at once: their tokens are microseconds apart."""
    rows = some(600, noise=0.1)
    rows.y[::7] = 30e-6
    expected, found = rows.x @ TRUE, rows.x @ regress(rows, NOTHING).values
    assert np.median(np.abs(found / expected - 1)) < 0.15
