"""Lower bounds never exceed the exact optimum, and reach it where the published schedules are the best there are."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, bound, make, time
from poise.pipeline.certified import Certified
from poise.pipeline.check import check
from poise.pipeline.memory import Weights, memory
from poise.pipeline.scheduling_problem import problem

from .cases import any_schedule

UNEQUAL = Costs.of([3, 4, 2], [3, 5, 4], [2, 1, 2], [1, 2, 1])


@pytest.mark.parametrize(
    ("name", "chunks", "peak", "makespan", "span"),
    [
        ("zb_h1", 1, 8, 103, 7), ("zb_h2", 1, 15, 103, 0), ("zb_v", 2, 8, Fraction(199, 2), 0),
        ("v_half", 2, 5, Fraction(209, 2), None),
    ],
)  # fmt: skip
def test_published_schedules_that_are_optimal(name: str, chunks: int, peak: int, makespan: Any, span: Any) -> None:
    """At T_F = T_B = T_W no schedule of their placement and memory is better."""
    where = problem(name, 8, 32, limit=peak, chunks=chunks)
    timing = time(make(name, 8, 32))
    assert bound.makespan(where) == timing.makespan == makespan
    if span is not None:
        assert bound.span_bubble(where) == timing.bubble_span == span


each = st.lists(st.integers(1, 9), min_size=3, max_size=3)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.data())
def test_below_any_schedule(seed: int, data: st.DataObject) -> None:
    """Of a wave or loop that happens to be drawn; with its own peaks as limit."""
    schedule = any_schedule(seed, copies=False)
    ranks, chunks = len(schedule.ranks), data.draw(st.integers(1, 2))
    draw = st.lists(st.integers(1, 9), min_size=ranks, max_size=ranks)
    costs = Costs.of(data.draw(draw), data.draw(draw), data.draw(draw), data.draw(st.integers(0, 5)))
    kept = data.draw(st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1)]))
    for placement in ("wave", "loop"):
        made = _moved(schedule, ranks, chunks, placement, schedule.microbatches)
        timing = time(made, costs, weights=Weights(kept=kept))
        peaks = check(made, weights=Weights(kept=kept)).peak_memory
        where = problem(
            "any", ranks, made.microbatches, costs=costs, limit=peaks, chunks=chunks, placement=placement, kept=kept
        )
        assert bound.makespan(where) <= timing.makespan
        assert bound.span_bubble(where) <= timing.bubble_span
        assert memory(timing.graph, Weights(kept=kept)).peaks == list(peaks)


def _moved(schedule: Any, ranks: int, chunks: int, placement: str, count: int) -> Any:
    """A schedule of the placement, from list scheduling with random preferences."""
    from poise.pipeline.greedy import deepest, freshest, greedy

    route = problem("any", ranks, count, chunks=chunks, placement=placement).route
    durations = Costs.of().at(ranks, ranks * chunks, count)
    first = freshest if len(str(schedule)) % 2 else deepest
    return greedy([route] * count, durations, ranks=ranks, split=True, first=first, alive=1 + len(str(schedule)) % 4)


@pytest.mark.parametrize("by", ["makespan", "span"])
@pytest.mark.parametrize("limit", [1, 2, None])
def test_below_the_exact_optimum(by: str, limit: int | None) -> None:
    """And `poise` finds that optimum, which the search proves without the bound."""
    pytest.importorskip("ortools")
    found = make("zb_exact", 3, 4, costs=UNEQUAL, memory_limit=limit, by=by)
    assert isinstance(found, Certified) and found.optimal
    timing = time(found, UNEQUAL)
    assert found.value == (timing.makespan if by == "makespan" else timing.bubble_span)
    check(found, memory_limit=limit)
    where = problem("any", 3, 4, costs=UNEQUAL, limit=limit)
    least = bound.makespan(where) if by == "makespan" else bound.span_bubble(where)
    assert least <= found.bound <= found.value
    ours = make("poise", 3, 4, costs=UNEQUAL, memory_limit=limit, by=by, chunks=1, effort=20_000)
    assert isinstance(ours, Certified) and ours.value == found.value


def test_a_limit_that_nothing_fits_is_an_error() -> None:
    with pytest.raises(ScheduleError, match=r"memory limit 0\.5 on rank 0 leaves no room for one microbatch"):
        make("poise", 2, 2, memory_limit=Fraction(1, 2))
    with pytest.raises(ScheduleError, match="3 values for 2 ranks"):
        make("poise", 2, 2, memory_limit=[1, 2, 3])
    with pytest.raises(ScheduleError, match="placement 'ring'; give loop or wave"):
        make("zb_exact", 2, 2, placement="ring")
