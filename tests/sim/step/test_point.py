"""A simulated step as a point: the clock of the schedule without bytes, and longer with them."""

from __future__ import annotations

import pytest

from poise.pipeline import Costs
from poise.pipeline.figures import figures
from poise.sim.step.point import transferred
from poise.sim.step.traffic import Traffic

COSTS = Costs.of("0.01", "0.01", "0.01")


@pytest.mark.parametrize("name", ["one_f_one_b", "interleaved", "breadth_first"])
def test_without_bytes_it_is_the_clock_of_the_schedule(name: str) -> None:
    assert transferred(name, 4, 8, COSTS).makespan_s == pytest.approx(figures(name, 4, 8, COSTS).makespan)


def test_gathers_and_links_count() -> None:
    plain = transferred("interleaved", 4, 16, COSTS)
    sharded = Traffic(gather_bytes=1e8, sync_bytes=1e8, sync="run")
    slow, fast = (transferred("interleaved", 4, 16, COSTS, sharded, scaleout_bw=each) for each in (5e9, 50e9))
    assert plain.makespan_s < fast.makespan_s < slow.makespan_s
