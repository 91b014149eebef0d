"""CloudMatrix384's figures: rates per NPU, the experts of 320 dies, exchanges, cache reuse, a law of decode steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.cost.cloudmatrix import DECODES, Experts, exchange_s, rate, reuse_gain, tpot_s


def test_320_dies_hold_an_expert_each() -> None:
    assert sum(Experts()) == 320
    assert Experts().npus == 160


@pytest.mark.parametrize(("batch", "limit_s"), [(128, 0.05), (112, 0.05), (96, 0.05), (24, 0.03), (8, 0.015)])
def test_published_points_are_within_their_limits(batch: int, limit_s: float) -> None:
    (point,) = (each for each in DECODES if each.batch == batch)
    assert 0.8 * limit_s < tpot_s(point) <= limit_s


def test_rate_times_tpot_is_the_batch() -> None:
    assert rate(128, 0.0468) == pytest.approx(2733, rel=0.005)
    assert rate(96, 0.0494) == pytest.approx(1943, rel=0.005)


def test_a_law_in_batch_and_context_fits_the_published_points() -> None:
    """TPOT = a + b·B + c·B·context through five points, each within 11 %, no part of it below 0."""
    rows = np.array([[1.0, each.batch, each.batch * each.context] for each in DECODES])
    times = np.array([tpot_s(each) for each in DECODES])
    law, *_ = np.linalg.lstsq(rows / times[:, None], np.ones(len(times)), rcond=None)
    assert (law > 0).all()
    assert np.abs(rows @ law / times - 1).max() < 0.11


def test_exchanges_at_the_published_ends_and_at_320() -> None:
    assert exchange_s("dispatch", 8) == pytest.approx(116e-6) and exchange_s("dispatch", 256) == pytest.approx(152e-6)
    assert exchange_s("combine", 8) == pytest.approx(118e-6) and exchange_s("combine", 256) == pytest.approx(149e-6)
    both = exchange_s("dispatch", 320) + exchange_s("combine", 320)
    assert 301e-6 < both < 310e-6
    assert 58 * both < tpot_s(DECODES[0]), "58 MoE layers exchange within one step"


@given(st.integers(8, 1000))
def test_exchanges_grow_with_ranks(ranks: int) -> None:
    for kind in ("dispatch", "combine"):
        assert exchange_s(kind, ranks + 1) > exchange_s(kind, ranks)


def test_one_fixed_part_explains_both_gains_of_reuse() -> None:
    """1.42 times at half of the prompt and 2.28 times at nine tenths: 40 % of the time is fixed."""
    assert reuse_gain(0.5, 0.4) == pytest.approx(1.42, rel=0.03)
    assert reuse_gain(0.9, 0.4) == pytest.approx(2.28, rel=0.06)
    assert reuse_gain(0.0, 0.4) == 1.0


def test_what_was_not_published() -> None:
    with pytest.raises(UserError, match="nothing is published below 8"):
        exchange_s("dispatch", 4)
    with pytest.raises(UserError, match="'gather' is no exchange; give one of dispatch, combine"):
        exchange_s("gather", 8)
    with pytest.raises(UserError, match="are parts"):
        reuse_gain(1.0, 0.4)
