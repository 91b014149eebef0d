"""A timed Program: makespan, memory in time and critical path, against the schedule's own timing and by hand."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ProgramError, ScheduleError
from poise.pipeline import Costs, Schedule, make, names, time
from poise.pipeline.lower import program_of
from poise.pipeline.op import Kind
from poise.pipeline.program_time import durations_of, ticks_by, ticks_of
from poise.program import Builder, Content, Lane, Task
from poise.program.critical import critical_path, stretches
from poise.program.held import Held
from poise.program.perfetto import timeline
from poise.program.table import HEAD, write_csv
from poise.program.timed import Timed, timed
from poise.program.words import read_argument
from tests.depth import examples

tenths = st.integers(0, 20).map(lambda number: Fraction(number, 10))
work = st.integers(1, 30).map(lambda number: Fraction(number, 10))


def run(schedule: Schedule, costs: Costs) -> Timed:
    program = program_of(schedule, shared_copy=costs.shared_copy)
    return timed(program, *ticks_of(program, schedule, costs))


@st.composite
def cases(draw: st.DrawFn, name: str) -> tuple[Schedule, Costs] | None:
    ranks = 2 * draw(st.integers(1, 3))
    try:
        schedule = make(name, ranks, ranks * draw(st.integers(1, 2)))
    except ScheduleError:
        return None
    costs = Costs.of(
        f=draw(st.lists(work, min_size=ranks, max_size=ranks)), b=draw(work), w=draw(work), r=draw(work),
        offload=draw(tenths), reload=draw(tenths), shared_copy=draw(st.booleans()),
        comm=0 if schedule.barriers else draw(tenths), s=draw(tenths), t=draw(tenths), barrier=draw(tenths),
    )  # fmt: skip
    return schedule, costs


@pytest.mark.deep
@pytest.mark.parametrize("name", names())
@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_time_and_memory_are_those_of_the_schedule(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    if case is None:
        return
    found, wanted = run(*case), time(*case)
    assert found.makespan == wanted.makespan
    compute = {each.lane.rank: each for each in found.lanes if each.lane.name == "compute"}
    assert [compute[rank].busy for rank in sorted(compute)] == wanted.busy
    assert all(each.busy + each.idle == found.makespan for each in found.lanes)
    proof = found.program.prove()
    assert {*found.held} == {*proof.peak_memory}
    for key, held in found.held.items():
        assert held.instants == sorted({*held.instants}) and min(held.levels) >= 0
        assert float(held.peak[0]) <= proof.peak_memory[key] + 1e-9
    if not any(op.kind in (Kind.OFFLOAD, Kind.R) for row in case[0].ranks for op in row):
        for rank in compute:
            assert curve(found, rank) == pytest.approx(held_by(case, rank))


def curve(found: Timed, rank: int) -> list[float]:
    """Instants and levels, one behind the other."""
    held = found.held[rank, "device"]
    return [float(each) for pair in zip(held.instants, held.levels, strict=True) for each in pair]


def held_by(case: tuple[Schedule, Costs], rank: int) -> list[float]:
    """The same by the schedule's own timing; what is held for no time is left out."""
    last = dict(time(*case).held(rank))
    changes: list[float] = []
    level = Fraction(0)
    for instant in sorted(last):
        if last[instant] != level:
            changes += [instant, float(last[instant])]
        level = last[instant]
    return changes


@pytest.mark.deep
@pytest.mark.parametrize("name", names())
@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_the_critical_path_makes_up_the_makespan(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    if case is None:
        return
    found = run(*case)
    path = critical_path(found)
    at = 0
    for step in path:
        assert step.wait >= 0 and found.starts[step.number] == at + step.wait
        at = found.ends[step.number]
        waits_for_message = found.index.tasks[step.number].kind == "recv"
        assert not step.wait or waits_for_message
    assert at == found.makespan * found.scale
    rows = list(stretches(found, path))
    assert sum(row.tasks for row in rows) == len(path)
    assert all(one.end == two.start - two.wait for one, two in pairwise(rows))


def test_one_f_one_b_by_hand() -> None:
    found = run(make("one_f_one_b", 2, 2), Costs.of(f=1, b=1, w=1, comm="0.5"))
    assert found.makespan == 10
    lanes = {each.lane: each for each in found.lanes}
    assert [float(each) for each in lanes[Lane(0, "compute")][2:]] == [6, 4, 0, 10]
    assert [float(each) for each in lanes[Lane(1, "compute")][2:]] == [6, 4, 1.5, 7.5]
    assert lanes[Lane(1, "from 0")].busy == 0
    held = found.held[0, "device"]
    assert [each * found.scale for each in (0, 1, 7, 10)] == held.instants and held.levels == [1, 2, 1, 0]
    assert [*map(float, held.peak)] == [2, found.scale]
    rows = [
        (str(row.lane), row.start, row.end) for row in stretches(found, critical_path(found)) if row.end > row.start
    ]
    assert [place for place, *_ in rows] == ["rank 0, lane compute", "rank 1, lane compute", "rank 0, lane compute"]


def levels(instants: list[int], *held: int) -> Held:
    return Held(instants, [*map(Fraction, held)])


def copied(lane: str, sizes: tuple[float, float, float] = (4.0, 3.0, 1.0)) -> Timed:
    """A value that is copied to the host while another one is made."""
    build = Builder("copies")
    build.give("w@0", Content({}), 2.0)
    for name, size in zip(("a@0", "b@0"), sizes, strict=False):
        build.size(name, size)
    build.size("h@0", sizes[2], "host")
    build.add(Task("make", 0, "compute", ("w@0",), ("a@0",)))
    build.add(Task("copy", 0, lane, ("a@0",), ("h@0",)))
    build.add(Task("make", 0, "compute", (), ("b@0",)))
    build.add(Task("use", 0, "compute", ("b@0", "h@0"), ()))
    program = build.build()
    ticks = {"make": 5, "copy": 3, "use": 1}
    return timed(program, [ticks[task.kind] for task in program.index.tasks], [0] * 4)


def test_a_value_is_held_until_its_last_reader_ends() -> None:
    found = copied("d2h")
    assert found.held[0, "device"] == levels([0, 5, 8, 11], 6, 9, 5, 2)
    assert found.held[0, "host"] == levels([5, 11], 1, 0)
    apart = copied("compute")
    assert apart.held[0, "device"] == levels([0, 8, 14], 6, 5, 2) and apart.makespan == 14


def test_the_next_version_takes_over_the_memory() -> None:
    build = Builder()
    for number, size in enumerate((2.0, 5.0, 1.0)):
        build.size(f"s#{number}@0", size)
        reads = (f"s#{number - 1}@0",) if number else ()
        build.add(Task("step", 0, "compute", reads, (f"s#{number}@0",)))
    found = timed(build.build(), [2, 2, 2], [0] * 3)
    assert found.held[0, "device"] == levels([0, 2, 6], 2, 5, 0)


def test_a_deadlock_is_named() -> None:
    build = Builder()
    build.add(Task("one", 0, "compute", ("b@0",), ("a@0",)))
    build.add(Task("two", 0, "other", ("a@0",), ("b@0",)))
    with pytest.raises(ProgramError, match=r"deadlock: one a .* waits for two b"):
        timed(build.build(), [1, 1], [0, 0])


def test_a_program_has_the_costs_of_its_schedule() -> None:
    schedule, costs = make("interleaved", 4, 8, chunks=2), Costs.of(f=[1, 2, 3, 4], comm="0.3")
    program = program_of(schedule)
    assert ticks_by(program, durations_of(program, costs), {}) == ticks_of(program, schedule, costs)
    ticks, _, scale = ticks_by(program, durations_of(program, costs), {"update": Fraction(1, 7)})
    updates = [tick for tick, task in zip(ticks, program.index.tasks, strict=True) if task.kind == "update"]
    assert updates == [scale // 7] * 8


def test_the_trace_has_a_thread_for_each_lane_and_an_arrow_for_each_message() -> None:
    found = run(make("po_f", 4, 8), Costs.of(comm="0.5", offload=1, reload=1))
    events: list[dict[str, Any]] = json.loads(timeline(found))["traceEvents"]
    threads = {(each["pid"] - 1, each["args"]["name"]): each for each in events if each["name"] == "thread_name"}
    assert {Lane(*key) for key in threads} == {*found.program.rows}
    slices = [each for each in events if each["ph"] == "X"]
    assert len(slices) == len(found.index.tasks)
    assert max(each["ts"] + each["dur"] for each in slices) == pytest.approx(1000 * float(found.makespan))
    begins, ends = ({e["id"]: e for e in events if e["ph"] == phase} for phase in ("s", "f"))
    assert len(begins) == len(ends) == found.program.prove().messages
    for number, begin in begins.items():
        assert ends[number]["ts"] == pytest.approx(begin["ts"] + 500)
        for arrow in (begin, ends[number]):
            near = [
                e for e in slices if (e["pid"], e["tid"]) == (arrow["pid"], arrow["tid"]) and e["ts"] == arrow["ts"]
            ]
            assert near, "an arrow must begin and end at a slice"
    assert {each["name"] for each in events if each["ph"] == "C"} == {"held, device", "held, host"}


def test_the_table_has_a_row_for_each_task() -> None:
    found = run(make("dualpipe", 4, 8), Costs.of(comm="0.5"))
    head, *rows = csv.reader(io.StringIO(write_csv(found, Fraction(2))))
    assert tuple(head) == HEAD and len(rows) == len(found.index.tasks)
    for row, interval in zip(rows, found.rows(), strict=True):
        task = interval.task
        assert found.program.rows[Lane(int(row[0]), row[1])][int(row[2])] == task
        assert (read_argument(row[4]) if row[4] else None) == task.arg and row[5].split() == list(task.reads)
        assert float(row[8]) == pytest.approx(interval.end / found.scale / 2)
