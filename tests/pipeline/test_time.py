"""The simulator equals a slow one that knows nothing of it, and tells what its definitions say."""

from __future__ import annotations

from fractions import Fraction
from heapq import heappop, heappush

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, Kind, Schedule, make, time

from .cases import schedules

numbers = st.integers(1, 7)


def slow(schedule: Schedule, costs: Costs) -> dict[str, tuple[Fraction, Fraction]]:
    """Start and end of each operation by events: an operation is tried again whenever anything ends or arrives."""
    ranks = len(schedule.ranks)
    durations = costs.at(ranks, schedule.stages, schedule.microbatches)
    home = {(op.stage, op.microbatch): rank for rank, row in enumerate(schedule.ranks) for op in row}
    split = {(op.stage, op.microbatch) for row in schedule.ranks for op in row if op.kind is Kind.I}
    queue, busy = [list(row) for row in schedule.ranks], [Fraction(0)] * ranks
    ended: dict[str, tuple[Fraction, Fraction]] = {}
    events = [Fraction(0)]
    while events:
        now = heappop(events)
        for rank in range(ranks):
            if not queue[rank] or busy[rank] > now:
                continue
            stage, kind, batch = op = queue[rank][0]
            need = None
            if kind is Kind.F and stage:
                need = stage - 1, "F"
            elif kind in (Kind.I, Kind.B) and stage + 1 < schedule.stages:
                need = stage + 1, "I" if (stage + 1, batch) in split else "B"
            if need is not None:
                name = f"{need[0]}{need[1]}{batch}"
                hop = Fraction(durations.hop(home[need[0], batch], rank), durations.scale)
                if name not in ended or ended[name][1] + hop > now:
                    if name in ended:
                        heappush(events, ended[name][1] + hop)
                    continue
            work = (
                durations.work[1][stage] + durations.work[2][stage] if kind is Kind.B else durations.work[kind][stage]
            )
            takes = work * durations.microbatch[batch or 0] * durations.rank[rank] / durations.scale
            queue[rank].pop(0)
            ended[str(op)] = now, now + takes
            busy[rank] = now + takes
            heappush(events, now + takes)
    assert not any(queue)
    return ended


@settings(max_examples=150, deadline=None)
@given(schedules, st.data())
def test_as_a_slow_simulation_by_events(schedule: Schedule, data: st.DataObject) -> None:
    ranks, stages = len(schedule.ranks), schedule.stages

    def some(count: int) -> list[int]:
        return data.draw(
            st.one_of(st.lists(numbers, min_size=1, max_size=1), st.lists(numbers, min_size=count, max_size=count))
        )

    costs = Costs.of(
        some(stages), some(stages), some(stages), some(ranks), microbatch=some(schedule.microbatches), rank=some(ranks)
    )
    timing = time(schedule, costs)
    expected = slow(schedule, costs)
    ops = [op for row in schedule.ranks for op in row]
    got = {
        str(op): (Fraction(start, timing.scale), Fraction(end, timing.scale))
        for op, start, end in zip(ops, timing.starts, timing.ends, strict=True)
    }
    assert got == expected
    assert timing.makespan == max(end for _, end in expected.values())
    assert timing.bubble_global >= timing.bubble_span >= 0


def test_a_straggler_slows_its_rank_and_a_long_microbatch_itself() -> None:
    schedule = make("gpipe", 4, 8)
    assert time(schedule, Costs.of(rank=[1, 1, 2, 1])).makespan == (2 + 8 * 2 + 1) + (2 + 8 * 4 + 2 * 2)
    assert time(schedule, Costs.of(microbatch=[2] + [1] * 7)).makespan == (4 * 2 + 7) + (4 * 4 + 7 * 2)


def test_unequal_stages_and_chunks() -> None:
    """A full stage keeps its work however it is cut; the unit is the largest forward."""
    costs = Costs.of(f=[1, 2, 3, "4.5"])
    for name in ("one_f_one_b", "zb_v", "interleaved"):
        timing = time(make(name, 4, 8), costs)
        assert sum(timing.busy) == 8 * (1 + 2 + 3 + Fraction(9, 2) + 8)
        assert timing.largest_f == Fraction(9, 2)
    each = Costs.of(f=[1, 2, 3, 4, 5, 6, 7, 8], b=8, w=8)
    assert time(make("interleaved", 4, 8), each).busy[0] == 8 * (1 + 5 + 16)


def test_messages_take_the_time_of_their_link() -> None:
    alone = make("gpipe", 4, 1)
    assert time(alone, Costs.of(comm=[1, 10, 100, 1000])).makespan == 12 + 2 * 111
    looped = make("breadth_first", 2, 1)
    assert time(looped, Costs.of(comm=[1, 10])).makespan == 6 + 2 * 3, "two ranks have one link"
    assert time(make("breadth_first", 3, 1), Costs.of(comm=[1, 2, 30])).makespan == 9 + 2 * (3 + 30 + 3)
    assert time(make("zb_v", 4, 1), Costs.of(comm=[1, 10, 100, 7])).makespan == time(make("zb_v", 4, 1)).makespan + 444


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"f": [1, 2]}, "f: 2 values for 4 stages; give one, 4"),
        ({"comm": [1, 2]}, "comm: 2 values for 4"),
        ({"b": "x"}, "b: 'x' is no number"),
        ({"w": -1}, "negative"),
        ({"f": 0}, "0 on every stage"),
    ],
)
def test_bad_costs_say_what_would_do(given: dict[str, object], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        time(make("gpipe", 4, 4), Costs.of(**given))  # type: ignore[arg-type]
