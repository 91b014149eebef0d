"""Pairs of a forward and a backward at once: proven, with the memory of the schedule, in lanes of their own."""

from __future__ import annotations

import pytest

from poise.core.errors import ProgramError
from poise.pipeline import make, names
from poise.pipeline.lower import program_of
from poise.program import Lane
from poise.program.passes import side_by_side
from poise.program.text import read_program, write_program


@pytest.mark.parametrize("name", names())
def test_every_schedule_is_proven_with_its_pairs(name: str) -> None:
    plain = program_of(make(name, 4, 8))
    program = side_by_side(plain)
    found, wanted = program.prove(), plain.prove()
    assert found.messages == wanted.messages
    assert read_program(write_program(program)) == program
    beside = [task for task in program.tasks() if task.lane == "compute 1" and task.kind != "wait"]
    moved = [task._replace(lane="compute") for task in beside]
    rest = [task for task in program.tasks() if task not in beside and task.arg != "side by side"]
    assert sorted(map(str, [*moved, *rest])) == sorted(map(str, plain.tasks()))


def test_a_backward_that_uses_its_forward_is_no_pair() -> None:
    """On the last rank of 1F1B every backward follows its own forward."""
    program = side_by_side(program_of(make("one_f_one_b", 4, 8)))
    assert Lane(3, "compute 1") not in program.rows
    assert Lane(2, "compute 1") in program.rows


def test_the_first_pair_of_a_rank_stays_serial_where_that_is_wanted() -> None:
    plain = program_of(make("dualpipe", 4, 8))
    every, less = (side_by_side(plain, serial).rows for serial in ((), (1,)))
    kinds = [[task.kind for task in rows[Lane(1, "compute 1")]] for rows in (every, less)]
    assert len(kinds[0]) == len(kinds[1]) + 2  # a wait and a backward
    assert [*every[Lane(0, "compute 1")]] == [*less[Lane(0, "compute 1")]]


def test_pairs_that_begin_together_may_deadlock() -> None:
    """GPipe's last forward would wait for a gradient that comes behind it."""
    plain = program_of(make("gpipe", 4, 8))
    side_by_side(plain).prove()
    with pytest.raises(ProgramError, match="deadlock"):
        side_by_side(plain, together=True).prove()
    side_by_side(program_of(make("dualpipe", 4, 8)), together=True).prove()
