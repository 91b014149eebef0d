"""The floor of launches, TKLQT on both sides of the transition, and the closed form against what is played through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.cost.launch import bound_s, floor_s, played, transition

kernels = st.lists(st.floats(1e-7, 1e-3), min_size=1, max_size=60)
durations = st.floats(0.0, 1e-4)


@given(kernels, durations, durations)
def test_no_iteration_beats_its_launches_or_its_work(lasting: list[float], launch: float, path: float) -> None:
    found = played(lasting, launch, path)
    assert found.latency_s >= bound_s(sum(lasting), len(lasting), launch) * (1 - 1e-9)
    assert found.latency_s <= (floor_s(len(lasting), launch) + sum(lasting) + path) * (1 + 1e-9)
    assert found.idle_s >= -1e-12
    assert found.tklqt_s >= len(lasting) * (launch + path) * (1 - 1e-9)


@given(st.integers(1, 500), st.floats(1e-6, 1e-4), st.floats(1e-6, 1e-4))
def test_equal_kernels_in_closed_form(count: int, lasting: float, launch: float) -> None:
    found = played([lasting] * count, launch)
    assert found.latency_s == pytest.approx(max(count * launch + lasting, launch + count * lasting))
    queued = max(lasting - launch, 0.0) * count * (count - 1) / 2
    assert found.tklqt_s == pytest.approx(count * launch + queued)


def test_tklqt_is_flat_until_the_transition_and_rises_after_it() -> None:
    """300 kernels at 5 µs: a floor of 1.5 ms; a kernel of batch b lasts 0.1·b µs, so 50 is the transition."""
    found = {batch: played([1e-7 * batch] * 300, 5e-6) for batch in (1, 10, 49, 60, 100)}
    assert found[1].tklqt_s == pytest.approx(found[49].tklqt_s)
    assert found[49].tklqt_s < found[60].tklqt_s < found[100].tklqt_s
    assert floor_s(300, 5e-6) == pytest.approx(1.5e-3)
    assert floor_s(1200, 5e-6) == pytest.approx(6e-3)
    assert transition(lambda batch: 300 * 1e-7 * batch, 300, 5e-6) in (50, 51), "to rounding"


@given(st.floats(1e-7, 1e-4), st.integers(1, 2000), st.floats(0.0, 1e-4))
def test_the_transition_is_the_first_batch_that_the_device_binds(each: float, kernels: int, launch: float) -> None:
    found = transition(lambda batch: each * batch, kernels, launch, most=512)
    assert 1 <= found <= 513
    if found <= 512:
        assert each * found >= floor_s(kernels, launch)
    if found > 1:
        assert each * (found - 1) < floor_s(kernels, launch)


def test_durations_are_no_less_than_nothing() -> None:
    with pytest.raises(UserError, match="give 0 or more"):
        played([1e-6], -1.0)
