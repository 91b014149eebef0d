"""A schedule in parts takes as long as the whole one, and its parts share out what a stage takes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, make, time
from poise.sim.step.parts import in_parts, shared_out
from tests.depth import examples

COUNTS = st.integers(1, 3)


@pytest.mark.deep
@given(
    st.sampled_from(["one_f_one_b", "zb_h1", "gpipe", "dualpipe", "zb_v"]),
    st.lists(COUNTS, min_size=4, max_size=4),
    st.lists(st.integers(3, 20), min_size=12, max_size=12),
)
@settings(max_examples=examples(80), deadline=None)
def test_it_takes_as_long(name: str, counts: list[int], times: list[int]) -> None:
    whole = make(name, 2, 4)
    counts = counts[: whole.stages]
    rows = [times[at : at + whole.stages] for at in (0, 4, 8)]
    parts = in_parts(whole, counts)
    parts.check()
    cut = Costs.of(*(shared_out(row, counts) for row in rows))
    assert time(parts, cut).makespan == time(whole, Costs.of(*rows)).makespan


@given(st.lists(st.tuples(st.integers(10, 99), COUNTS), min_size=1, max_size=4), st.integers(0, 9))
def test_parts_share_a_stage_as_evenly_as_whole_numbers_allow(stages: list[tuple[int, int]], head: int) -> None:
    whole, counts = zip(*stages, strict=True)
    found = shared_out(whole, counts, head)
    found[-1] -= head
    for stage, (total, count) in enumerate(stages):
        own, found = found[:count], found[count:]
        assert sum(own) == total - (head if stage == len(stages) - 1 else 0)
        assert max(own) - min(own) <= 1
    assert not found


def test_counts_of_1_change_nothing() -> None:
    whole = make("zb_v", 4, 8)
    assert in_parts(whole, [1] * 8) == whole.compute()


def test_what_cannot_be_cut() -> None:
    with pytest.raises(ScheduleError, match="3 counts for 2 stages; give 1 or more"):
        in_parts(make("gpipe", 2, 2), [1, 1, 1])
    with pytest.raises(ScheduleError, match="is of a whole stage"):
        in_parts(make("vocab_1", 2, 4), [1, 1])
