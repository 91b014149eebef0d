"""Figures of a schedule are those of the proof and the clock, and the closed forms of the papers."""

from __future__ import annotations

import pytest

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, check, make, time
from poise.pipeline.figures import figures

ROWS = [("gpipe", {}), ("interleaved", {"chunks": 4}), ("zb_h2", {}), ("chimera", {}), ("vocab_1", {})]


@pytest.mark.parametrize(("name", "given"), ROWS)
def test_figures_are_those_of_proof_and_clock(name: str, given: dict[str, int]) -> None:
    costs = Costs.of([1, 2, 1, 3], 1, 2, 0.25, s=0.5, t=0.5)
    found = figures(name, 4, 8, costs, given=given)
    made = make(name, 4, 8, costs=costs, **given)
    timing = time(made, costs)
    assert (found.makespan, found.bubble) == (float(timing.makespan), float(timing.bubble_global))
    assert (found.span_bubble, found.peak) == (float(timing.bubble_span), float(max(check(made).peak_memory)))
    assert found.bubble_part == pytest.approx(float(timing.bubble_global_fraction))
    assert found.messages == check(made).messages
    assert found.copies == (2 if name == "chimera" else 1)


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_the_three_bubbles_of_one_schedule(chunks: int) -> None:
    """(p − 1) / (v m) of the work, x / (1 + x) of that of the makespan; every boundary is crossed both ways."""
    found = figures("interleaved" if chunks > 1 else "one_f_one_b", 4, 8, given={"chunks": float(chunks)})
    ratio = 3 / (chunks * 8)
    assert found.bubble_ratio == pytest.approx(ratio)
    assert found.bubble_part == pytest.approx(ratio / (1 + ratio))
    assert found.messages == 2 * 8 * (4 * chunks - 1)


def test_orders_follow_costs_only_where_they_are_fitted() -> None:
    """The published V-Min repeats its block; fitted to times that differ it is faster."""
    costs = Costs.of(18522, 18086, 9337, 601)
    plain, fitted = (figures("v_min", 8, 32, costs, fitted=each) for each in (False, True))
    assert fitted.makespan < plain.makespan


def test_a_limit_is_proven() -> None:
    with pytest.raises(ScheduleError, match="full-stage activations of 2"):
        figures("one_f_one_b", 4, 8, limit=0.5)
