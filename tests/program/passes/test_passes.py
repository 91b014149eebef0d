"""Passes: what they make is proven, holds the bytes that it must, and is refused where a task of it is left out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Literal

import pytest

from poise.core.errors import ProgramError
from poise.pipeline import make, names
from poise.pipeline.lower import program_of
from poise.program import Lane, Program, Task
from poise.program.passes import as_messages, gathered, optimized, reduced, sized
from poise.program.passes.gather import runs

FLUSH = [name for name in names() if make(name, 4, 8).updates == "flush"]


def rows(program: Program, lane: str) -> list[Task]:
    return [task for each, row in program.rows.items() if each.name == lane for task in row]


@pytest.mark.parametrize("name", FLUSH)
@pytest.mark.parametrize("when", ["end", "run"])
def test_all_of_them_together_are_proven(name: str, when: Literal["end", "run"]) -> None:
    schedule = make(name, 4, 8)
    each = [1.0] * schedule.stages
    program = sized(as_messages(program_of(schedule)), each)
    program = optimized(reduced(gathered(program, each), each, when), [1.0] * 4)
    program.prove()


def test_messages_have_the_bytes_of_the_stage_that_sends_them_forward() -> None:
    """Stage s sends bytes[s]; a gradient goes back with the bytes with which the activation came."""
    program = sized(program_of(make("one_f_one_b", 3, 2)), [10.0, 20.0, 30.0])
    sent = {task.reads[0]: task.work for task in program.tasks() if task.kind == "send"}
    assert sent == {
        **{f"x{stage}.{batch}@{stage}": 10.0 * (stage + 1) for stage in (0, 1) for batch in (0, 1)},
        **{f"g{stage}.{batch}@{stage}": 10.0 * stage for stage in (1, 2) for batch in (0, 1)},
    }
    assert all(task.work == program.index.tasks[send].work for task, send in received(program))


@pytest.mark.parametrize("name", names())
def test_a_schedule_is_lowered_with_the_bytes_that_the_pass_would_give(name: str) -> None:
    schedule = make(name, 4, 8)
    each = [float(stage + 1) for stage in range(schedule.stages)]
    assert sized(program_of(schedule), each).rows == sized(program_of(schedule, message_bytes=each), each).rows
    if not schedule.barriers:
        assert program_of(schedule, message_bytes=each).rows == sized(program_of(schedule), each).rows
    with pytest.raises(ProgramError, match=f"message_bytes: 1 numbers for {schedule.stages} stages"):
        program_of(schedule, message_bytes=[1.0])


def received(program: Program) -> list[tuple[Task, int]]:
    index = program.index
    return [(index.tasks[at], send) for at, send in enumerate(index.source) if send >= 0]


def test_a_path_that_skips_stages_sends_back_to_the_stage_before() -> None:
    schedule = make("skippipe", 4, 8)
    program = sized(program_of(schedule), [1.0, 2.0, 3.0, 4.0])
    for task in program.tasks():
        if task.kind == "send" and task.reads[0].startswith("g"):
            stage, batch = map(int, task.reads[0].partition("@")[0][1:].split("."))
            path = program.paths[batch]
            assert task.work == path[path.index(stage) - 1] + 1


def test_broadcasts_become_messages_in_the_order_of_what_they_carry() -> None:
    program = program_of(make("vocab_1", 4, 8))
    found = as_messages(program)
    found.prove()
    assert "broadcast" in program.kinds - found.kinds
    assert sum(task.kind == "send" for task in found.tasks()) == 8 * 3 * 2 + 8 * 3  # both ways, and to three shards
    assert as_messages(found) is found


def test_one_reduction_for_each_stage_behind_its_last_gradient() -> None:
    program = reduced(program_of(make("breadth_first", 2, 4, chunks=2)), [1.0, 2.0, 0.0, 4.0])
    assert [(task.arg, task.work, task.group) for task in rows(program, "sync") if task.rank == 0] == [(0, 1.0, (0,))]
    assert [(task.arg, task.work) for task in rows(program, "sync") if task.rank == 1] == [(3, 4.0), (1, 2.0)]


def test_a_reduction_behind_each_run() -> None:
    """Interleaved 1F1B of p = 2, m = 4, two chunks has backwards in runs of two: two of each stage."""
    schedule = make("interleaved", 2, 4, chunks=2)
    program = reduced(program_of(schedule), [1.0] * 4, "run", "reduce_scatter")
    program.prove()
    assert [task.arg for task in rows(program, "sync") if task.rank == 0] == [2, 0, 2, 0]
    assert {task.kind for task in rows(program, "sync")} == {"reduce_scatter"}
    assert sum(task.kind == "add" for task in program.tasks()) == 4


@pytest.mark.parametrize("when", ["end", "run"])
def test_without_one_of_its_reductions_a_program_is_refused(when: Literal["end", "run"]) -> None:
    program = reduced(program_of(make("interleaved", 2, 4, chunks=2)), [1.0] * 4, when)
    lane = Lane(0, "sync")
    for slot in range(len(program.rows[lane])):
        row = [task for at, task in enumerate(program.rows[lane]) if at != slot]
        with pytest.raises(ProgramError, match="reads dw"):
            program.with_rows({**program.rows, lane: row}).prove()


def test_weights_are_gathered_for_each_run_one_run_ahead() -> None:
    """Breadth-first gathers each chunk once a direction, and the last one only once (Lamy-Poirier 2023, section 4)."""
    schedule = make("breadth_first", 2, 4, chunks=2)
    program = gathered(program_of(schedule), [1.0] * 4, [8.0] * 4)
    row = program.rows[Lane(0, "gather")]
    assert [task.arg for task in row] == [0, 2, 0]
    assert [run.stage for run in runs(program_of(schedule).rows[Lane(0, "compute")], [1.0] * 4)] == [0, 2, 0]
    compute = program.rows[Lane(0, "compute")]
    for one, two in pairwise(row):
        asks = next(at for at, task in enumerate(compute) if task.writes == two.reads)
        assert compute[asks + 1].reads[1] == one.writes[0]  # asked for where the run before starts
    held = program.prove().peak_memory
    plain = program_of(schedule).prove().peak_memory
    assert 8.0 < held[0, "device"] <= plain[0, "device"] + 2 * 8.0


def test_new_weights_are_gathered_once_one_stage_ahead() -> None:
    schedule = make("breadth_first", 2, 4, chunks=2)
    program = gathered(program_of(schedule), [1.0] * 4, once=True)
    assert [task.arg for task in program.rows[Lane(0, "gather")]] == [0, 2]
    assert not any(task.kind == "free" and "full" in task.reads[0] for task in program.tasks())
    compute = program.rows[Lane(0, "compute")]
    second = program.rows[Lane(0, "gather")][1]
    asks = next(at for at, task in enumerate(compute) if task.writes == second.reads)
    assert compute[asks + 1].kind == "F" and asks == 0  # where the first forward starts
    assert program.prove().collectives == 4


def test_a_weight_that_is_used_behind_its_run_is_refused() -> None:
    program = gathered(program_of(make("breadth_first", 2, 4, chunks=2)), [1.0] * 4)
    lane = Lane(0, "compute")
    row = list(program.rows[lane])
    free = next(at for at, task in enumerate(row) if task.kind == "free")
    row[free - 1], row[free] = row[free], row[free - 1]
    with pytest.raises(ProgramError, match="frees; move it before that"):
        replace(program, rows={**program.rows, lane: tuple(row)}).prove()


def test_the_optimizer_waits_for_all_gradients_and_then_gathers() -> None:
    program = optimized(program_of(make("interleaved", 2, 4, chunks=2)), [3.0, 0.0])
    for rank in range(2):
        row = program.rows[Lane(rank, "compute")]
        wait = next(at for at, task in enumerate(row) if task.arg == "optimizer")
        assert [task.kind for task in row[wait:]] == ["wait", "update", "update"]
        assert set(row[wait].reads) == {task.reads[1] for task in row[wait + 1 :]}
    assert [(task.rank, task.work) for task in rows(program, "sync")] == [(0, 3.0)]


def test_what_cannot_be() -> None:
    every = program_of(make("pipedream", 2, 4))
    with pytest.raises(ProgramError, match="rank 0 updates w0 more than once a step"):
        reduced(every, [1.0] * 2)
    with pytest.raises(ProgramError, match="gather only weights that are given and stay"):
        gathered(every, [1.0] * 2)
    plain = program_of(make("gpipe", 2, 2))
    with pytest.raises(ProgramError, match="sized: 1 numbers for 2 stages; give one for each"):
        sized(plain, [1.0])
    with pytest.raises(ProgramError, match="optimized: -1 is no number of bytes; give 0 or more"):
        optimized(plain, [1.0, -1.0])
