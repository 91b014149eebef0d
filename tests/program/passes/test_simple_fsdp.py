"""Merged gathers: proven, hidden where the rule says so, and within memory."""

from __future__ import annotations

from collections import Counter
from math import inf

import pytest

from poise.pipeline import make, names
from poise.pipeline.lower import program_of
from poise.program import Lane, Program, Task
from poise.program.passes import gathered, reduced, replicated
from poise.program.passes.simple_fsdp import Seconds, wrapped
from poise.program.timed import timed
from tests.program.passes.layers import BACKWARD_S, FORWARD_S, layers
from tests.program.passes.layers import seconds as computing

FLUSH = [name for name in names() if make(name, 4, 8).updates == "flush" and not make(name, 4, 8).barriers]
MILLI = 1000


def link(start: float, byte: float) -> Seconds:
    """Seconds of all tasks on a link with a start-up time and a time for each byte."""

    def seconds(task: Task) -> float:
        return start + byte * task.work if task.kind in ("all_gather", "reduce_scatter") else computing(task)

    return seconds


def sharded(program: Program, count: int, whole: float = 0.0) -> Program:
    each = [1.0] * count
    return reduced(gathered(program, each, [whole] * count), each, "run", "reduce_scatter")


def makespan(program: Program, seconds: Seconds) -> float:
    ticks = [round(seconds(task) * MILLI) for task in program.index.tasks]
    return float(timed(program, ticks, [0] * len(ticks), MILLI).makespan)


@pytest.mark.parametrize("name", FLUSH)
@pytest.mark.parametrize("seconds", [link(0.1, 0.1), link(1, 3), link(0.25, 0.0)])
def test_every_schedule_is_proven_and_only_collectives_are_merged(name: str, seconds: Seconds) -> None:
    schedule = make(name, 4, 8)
    plain = sharded(program_of(schedule), schedule.stages)
    found = wrapped(plain, seconds)
    replicated(found, 2).prove()
    for lane, row in plain.rows.items():
        if lane.name not in ("gather", "sync"):
            assert Counter(map(str, found.rows[lane])) == Counter(map(str, row))
            continue
        assert sorted(name for task in found.rows[lane] for name in task.writes) == sorted(
            name for task in row for name in task.writes
        )


@pytest.mark.parametrize("count", [1, 2, 5, 16, 40])
@pytest.mark.parametrize(("start", "byte"), [(0.5, 0.25), (1.0, 1.0), (0.25, 0.75)])
def test_what_is_merged_stays_hidden(count: int, start: float, byte: float) -> None:
    """Equal layers whose gathers are no longer than their forwards: the first gather and the last scatter are seen."""
    seconds = link(start, byte)
    plain = sharded(layers(count), count)
    found = wrapped(plain, seconds)
    replicated(found, 2).prove()
    hidden = count * (FORWARD_S + BACKWARD_S)
    assert makespan(plain, seconds) == pytest.approx(hidden + 2 * (start + byte))
    assert makespan(found, seconds) == pytest.approx(hidden + 2 * (start + byte))
    for lane in ("gather", "sync"):
        assert sum(task.work for task in found.rows[Lane(0, lane)]) == sum(
            task.work for task in plain.rows[Lane(0, lane)]
        )
    if count > 2:
        assert len(found.rows[Lane(0, "gather")]) < len(plain.rows[Lane(0, "gather")])


def test_nothing_is_merged_that_would_be_seen() -> None:
    """A gather of two layers takes 5 s, the forward of one 2 s."""
    plain = sharded(layers(8), 8)
    found = wrapped(plain, link(1, 2))
    forwards = [task for task in found.rows[Lane(0, "gather")] if not isinstance(task.arg, tuple)]
    assert len(forwards) >= 8


@pytest.mark.parametrize("limit", [20.0, 40.0, 80.0, inf])
def test_memory_stays_within_the_limit(limit: float) -> None:
    found = wrapped(sharded(layers(16), 16, whole=10.0), link(0.1, 0.1), limit)
    assert found.prove().peak_memory[0, "device"] - 16 <= limit  # 16: what the forwards keep
    free = wrapped(sharded(layers(16), 16, whole=10.0), link(0.1, 0.1))
    assert len(found.rows[Lane(0, "gather")]) >= len(free.rows[Lane(0, "gather")])
