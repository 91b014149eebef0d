"""Least squares without negative parts, against every possible choice of who is zero."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from poise.recordings.nnls import nnls

values = st.floats(-10, 10).map(lambda value: round(value, 3))


def loss(x: np.ndarray, y: np.ndarray, found: np.ndarray) -> float:
    return float(((x @ found - y) ** 2).sum())


@given(arrays(float, (9, 4), elements=values), arrays(float, 9, elements=values))
def test_no_other_choice_is_better(x: np.ndarray, y: np.ndarray) -> None:
    found = nnls(x.T @ x, x.T @ y)
    assert (found >= 0).all()
    best = loss(x, y, np.zeros(4))
    for free in product((False, True), repeat=4):
        some = np.flatnonzero(free)
        if len(some):
            other = np.zeros(4)
            other[some] = np.linalg.lstsq(x[:, some], y, rcond=None)[0]
            if (other >= 0).all():
                best = min(best, loss(x, y, other))
    assert loss(x, y, found) <= best + 1e-6 * (1 + float((y**2).sum()))


@given(arrays(float, (12, 3), elements=values), arrays(float, 3, elements=st.floats(0, 5)))
def test_what_made_the_rows_is_found(x: np.ndarray, true: np.ndarray) -> None:
    y = x @ true
    assert loss(x, y, nnls(x.T @ x, x.T @ y)) <= 1e-6 * (1 + float((y**2).sum()))
