"""Vocabulary parallelism: no worse than the published order at its peak, down to the bound of the last stage."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, Kind, Schedule, check, make, time
from poise.pipeline.shards import EARLY, LATE, Sharded
from tests.depth import examples

SHARE = Fraction("0.6")
"""An output layer of 2.4 over 4 ranks."""


def shards(barriers: int, barrier: float = 0) -> Costs:
    """A third of the work forward: S has that alone with two barriers, and the input's gradient as well with one."""
    parts = (SHARE / 3, SHARE * 2 / 3)
    s, t = parts if barriers == 2 else parts[::-1]
    return Costs.of(s=s, t=t, barrier=barrier)


def made(barriers: int, barrier: float, alive: int | None = None) -> tuple[float, int]:
    costs = shards(barriers, barrier)
    schedule: Schedule = make(f"vocab_{3 - barriers}", 4, 32, costs=costs, alive=alive)
    return float(time(schedule, costs).makespan), int(max(check(schedule).peak_memory))


def test_the_naive_output_layer_delays_every_stage() -> None:
    last = Costs.of(f=[1, 1, 1, "1.8"], b=[1, 1, 1, "1.8"], w=[1, 1, 1, "1.8"])
    assert float(time(make("one_f_one_b", 4, 32), last).makespan) == 181.8


@pytest.mark.parametrize(
    ("barriers", "barrier", "alive", "makespan", "block"),
    [
        (2, 0, 5, 125.0, 125.0),
        (2, 0, None, 124.2, 125.0),
        (1, 0, None, 120.2, 124.6),
        (2, 0.5, 5, 125.4, 135.6),
        (2, 0.5, None, 124.2, 126.8),
        (1, 0.5, None, 120.2, 125.6),
    ],
)
def test_published_sizes(barriers: int, barrier: float, alive: int | None, makespan: float, block: float) -> None:
    """`block` is what the repeated block of the paper takes with the same peak; 124.2 the bound of the last stage.

    With one barrier T may follow the last backward, which takes 4 off.
    """
    found, peak = made(barriers, barrier, alive)
    assert found == makespan <= block
    assert peak == (alive or 4 + barriers)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(1, 20), st.integers(1, 2), st.integers(0, 3), st.integers(0, 4))
def test_the_bound_of_the_last_stage(p: int, m: int, barriers: int, share: int, barrier: int) -> None:
    costs = Costs.of(f=2, b=2, w=2, s=share, t=share, barrier=Fraction(barrier, 2))
    schedule = make(f"vocab_{3 - barriers}", p, m, costs=costs)
    timing = time(schedule, costs)
    work = m * (6 + 2 * share)
    bound = work + 6 * (p - 1) if barriers == 2 else work + 2 * (p - 1)
    assert timing.makespan >= bound
    assert list(check(schedule).peak_memory) == [min(m, p + barriers - rank) for rank in range(p)]


def profile(data: st.DataObject, p: int) -> Costs:
    """Unequal times of stages and messages, some of them 0."""

    def each(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=p, max_size=p))

    return Costs.of(
        each(1, 20), each(1, 20), each(0, 20), data.draw(st.integers(0, 12)), s=each(0, 6), t=each(0, 6),
        barrier=data.draw(st.integers(0, 5)), rank=data.draw(st.sampled_from([[1], [1] * (p - 1) + [2]])),
    )  # fmt: skip


@pytest.mark.deep
@settings(max_examples=examples(800))
@given(st.integers(1, 8), st.integers(1, 32), st.sampled_from([None, 0, 1, 2, 3]), st.data())
def test_one_barrier_costs_at_most_a_microbatch(p: int, m: int, more: int | None, data: st.DataObject) -> None:
    """On any profile, with the default memory of each and with the same for both."""
    costs, alive = profile(data, p), None if more is None else p + more
    one, two = (make(name, p, m, costs=costs, alive=alive) for name in ("vocab_2", "vocab_1"))
    works = [sum(parts) for parts in zip(costs.f, costs.b, costs.w, costs.s, costs.t, strict=True)]
    slowest = max(work * costs.rank[place % len(costs.rank)] for place, work in enumerate(works))
    assert time(one, costs).makespan <= time(two, costs).makespan + slowest
    assert max(check(one).peak_memory) <= max(p + 2, alive or 0)


@settings(max_examples=50)
@given(st.integers(1, 6), st.integers(1, 12), st.sampled_from([1, 2]), st.sampled_from([EARLY, LATE]), st.data())
def test_what_list_scheduling_measures(
    p: int, m: int, barriers: int, order: tuple[Kind, ...], data: st.DataObject
) -> None:
    """Its own clock shows what `time` does, and its bound is one of every order with two barriers."""
    costs = profile(data, p)
    run = Sharded(p, m, costs, barriers=barriers, most=p + 1, order=order, ahead=data.draw(st.integers(0, 1)))
    timing = time(run.schedule("test"), costs)
    assert timing.makespan * timing.scale == run.makespan
    assert barriers == 1 or run.least <= run.makespan
    assert max(timing.busy) * timing.scale == max(run.work)


def test_the_profile_of_the_zero_bubble_paper() -> None:
    """8 ranks, 32 microbatches, no vocabulary work: 1F1B takes 119.7 thirds of a microbatch, two barriers 121.0."""
    costs = Costs.of(18522, 18086, 9337, 601)
    third = Fraction(18522 + 18086 + 9337, 3)
    found = {name: time(make(name, 8, 32, costs=costs), costs).makespan / third for name in ("vocab_1", "vocab_2")}
    assert float(found["vocab_1"]) == pytest.approx(121.04, abs=0.005)
    assert found["vocab_2"] <= found["vocab_1"]


def test_too_few_alive_is_an_error() -> None:
    with pytest.raises(ScheduleError, match="vocab_1: alive 3 is less than the 4 stages; give or allow at least 4"):
        make("vocab_1", 4, 8, alive=3)


def test_a_limit_is_kept() -> None:
    for name, limit, peak in (("vocab_1", 5, 5), ("vocab_1", 4.5, 4), ("vocab_2", 8, 5), ("vocab_1", [8, 8, 3, 9], 5)):
        found = check(make(name, 4, 16, memory_limit=limit), memory_limit=limit)
        assert found.peak_memory[0] == peak
    assert max(check(make("skippipe", 8, 16, memory_limit=4), memory_limit=4).peak_memory) == 4
