"""Tied weights: every copy gets the gradients by all stages, or the Program is refused."""

from __future__ import annotations

import pytest

from poise.core.errors import ProgramError
from poise.pipeline import make, names
from poise.pipeline.lower import program_of
from poise.program.passes import data_parallel, tied
from poise.program.text import read_program, write_program

FLUSH = [name for name in names() if make(name, 4, 8).updates == "flush"]


@pytest.mark.parametrize("name", FLUSH)
@pytest.mark.parametrize("replicas", [1, 3])
def test_every_schedule_with_two_tied_weights_is_proven(name: str, replicas: int) -> None:
    schedule = make(name, 4, 8)
    last = schedule.stages - 1
    program = tied(program_of(schedule), [(0, last), (0, 1, last)])
    others = {"tied0": 2.0, "tied1": 2.0} | {f"out{rank}": 3.0 for rank in range(4) if schedule.barriers}
    found = data_parallel(program, replicas, [1.0] * schedule.stages, others=others, cap=4, first=1)
    found.prove()
    assert read_program(write_program(found)) == found
    updates = [task for task in found.tasks() if task.kind == "update" and "tied" in task.writes[0]]
    assert {task.rank for task in updates if task.writes[0].startswith("tied0")} == {
        rank + 4 * more
        for stage in (0, last)
        for rank in schedule.homes[stage]
        for more in range(replicas)
    }  # fmt: skip


@pytest.mark.parametrize("name", ["one_f_one_b", "zb_h1", "chimera"])
def test_a_copy_without_the_sum_is_refused(name: str) -> None:
    program = tied(program_of(make(name, 4, 8)), [(0, 3)])
    sums = {task.writes[0]: task.reads[0] for task in program.tasks() if task.lane == "ties"}
    assert len(sums) == 2
    rows = {
        lane: [task._replace(reads=tuple(sums.get(name, name) for name in task.reads)) for task in row]
        for lane, row in program.rows.items()
        if lane.name != "ties"
    }
    with pytest.raises(
        ProgramError, match=r"wrong gradient: the gradient of tied0 by stage \d of sample \d is missing"
    ):
        program.with_rows(rows).prove()


def test_gradients_that_miss_one_stage_are_refused() -> None:
    program = tied(program_of(make("one_f_one_b", 2, 2)), [(0, 1)])
    text = write_program(program)
    wrong = text.replace("B(1,1) c1.1#0 w1 dw1#1 dtied0#1", "B(1,1) c1.1#0 w1 dw1#1 dtied0#0")
    assert wrong != text
    with pytest.raises(ProgramError, match="the gradient of tied0 by stage 1 of sample 0 is missing"):
        read_program(wrong).prove()


def test_what_cannot_be() -> None:
    with pytest.raises(ProgramError, match="its copies would drift apart; take a schedule that updates once a step"):
        tied(program_of(make("pipedream", 2, 4)), [(0, 1)])
    with pytest.raises(ProgramError, match="tied: weight 0 is in stage 7, which no sample passes; leave it out"):
        tied(program_of(make("gpipe", 2, 4)), [(0, 7)])
