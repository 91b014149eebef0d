"""Overlap: never below the largest resource, never above the inner steps, by a plan or as a part of the bound."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.terms.nanoflow import NanoFlow
from poise.cost.work import Works
from tests.cost.pools import pools

POOL = Pool(model("llama-2-70b"), device("A100"), tensor=8)
DENSE = StepShape(1024, (Chunk(1024, 0),))


def time(estimator: Estimator, shape: StepShape, kv: int, window_kv: int = 0) -> int:
    piece = estimator.step(shape).at(kv)
    return piece.base + piece.per_kv * kv + piece.per_window * window_kv


@settings(max_examples=30)  # each plan is a search
@given(
    pools(), st.integers(0, 400), st.integers(0, 3000), st.integers(0, 5000), st.none() | st.floats(0, 1),
    st.integers(2, 3),
)  # fmt: skip
def test_between_the_largest_resource_and_the_inner_step(
    pool: Pool, decodes: int, new: int, context: int, overlap: float | None, nano: int
) -> None:
    shape = StepShape(decodes, (Chunk(new, context),) if new else ())
    inner, kv = Roofline().build(pool), decodes * context
    found, alone = time(NanoFlow(overlap, nano).around(inner, pool), shape, kv), time(inner, shape, kv)
    assert found <= alone + 2 * decodes * max(context, 1)  # slopes are rounded to a picosecond
    if decodes or new:
        assert found >= Works(pool).of(shape).bound(kv) * (1 - 1e-6) - kv - 1


def test_the_step_is_exact_in_kv() -> None:
    """Between the crossings of resources the step is a straight line, and at each it goes on without a jump."""
    piece = NanoFlow(1.0).around(Roofline().build(POOL), POOL).step(StepShape(2048))
    seen = 0
    while piece.then is not None:
        kv = piece.until_kv
        here, there = (each.base + each.per_kv * kv for each in (piece, piece.then))
        assert here == pytest.approx(there, rel=1e-3)
        piece, seen = piece.then, seen + 1
    assert seen >= 1 and piece.per_kv > 0  # reading KV binds at last


def test_more_overlap_is_shorter() -> None:
    inner = Roofline().build(POOL)
    times = [time(NanoFlow(part).around(inner, POOL), DENSE, 1024 * 700) for part in (0.0, 0.3, 0.6, 1.0)]
    assert times == sorted(times, reverse=True) and times[0] == time(inner, DENSE, 1024 * 700)
    assert times[-1] < time(NanoFlow().around(inner, POOL), DENSE, 1024 * 700) < times[0]


def test_small_batches_are_not_cut() -> None:
    inner = Roofline().build(POOL)
    for decodes in (1, 8, 32):
        assert NanoFlow(1.0).around(inner, POOL).step(StepShape(decodes)).base == inner.step(StepShape(decodes)).base


@pytest.mark.parametrize("given_", [{"overlap": 1.1}, {"overlap": -0.1}, {"nano": 1}, {"nano": 5}])
def test_what_cannot_be(given_: dict[str, float]) -> None:
    with pytest.raises(ScenarioError, match="give"):
        replace(NanoFlow(), **given_)  # type: ignore[arg-type]
