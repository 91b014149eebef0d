"""Tiles of Comet and the shortcut of ScMoE: proven, and as long as their closed forms say; mistakes are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ProgramError
from poise.program import Content, Program
from poise.program.contributions import contributions
from poise.program.expert_layer import Works, expert_layer
from poise.program.order import ordered
from poise.program.passes.comet import Tiled, fine_grained
from poise.program.passes.fsmoe import chunked
from poise.program.passes.scmoe import best_slot, seconds, shortcut
from poise.program.passes.slices import sliced
from poise.program.task import Task
from tests.program.passes.expert_layers import WHOLE, few, makespan


@few
@given(st.integers(1, 6), st.integers(1, 5), st.tuples(*[WHOLE] * 4))
def test_tiles_take_what_arrival_and_products_say(ranks: int, columns: int, wholes: tuple[int, int, int, int]) -> None:
    there, up, down, back = wholes
    made = fine_grained(expert_layer(ranks, 1, Works(there, 0, up, down, 0, back)), columns)
    assert made.prove().messages == ranks * (ranks - 1)
    assert float(makespan(made)) == pytest.approx(Tiled(*wholes).seconds(ranks, columns), abs=1e-2)


@few
@given(st.lists(WHOLE, max_size=4), st.tuples(*[WHOLE] * 3), st.data())
def test_a_shortcut_hides_what_its_operators_can(
    before: list[int], wholes: tuple[int, int, int], data: st.DataObject
) -> None:
    there, experts, back = wholes
    program = expert_layer(3, 1, Works(there, 0, experts, 0, 0, back), before=before)
    slot = data.draw(st.integers(0, len(before)))
    made = shortcut(program, slot)
    made.prove()
    assert makespan(made) == seconds(before, there, experts, back, slot)
    slots = [makespan(shortcut(program, each)) for each in range(len(before) + 1)]
    assert slots[best_slot(before, there, experts, back)] == min(slots) <= makespan(program)


def test_what_comes_out() -> None:
    def output(program: Program) -> object:
        return contributions(program.index, ordered(program.index))["output@1"]

    program, last = expert_layer(3, before=(1.0, 1.0)), Content.of("tokens", 2, 1)
    for made in (program, chunked(program, 3), fine_grained(program, 2)):
        assert output(made) == last.plus({("tokens", 3, 1): 1})
    for made in (shortcut(program, 1), chunked(shortcut(program, 1), 3)):
        assert output(made) == last.plus({("tokens", 1, 1): 1})


def swapped(task: Task) -> Task:
    return task._replace(reads=task.reads[::-1]) if task.kind == "join" and task.rank == 1 else task


def test_mistakes_are_refused() -> None:
    program = expert_layer(2, before=(1.0,))
    made = chunked(program, 2)
    with pytest.raises(ProgramError, match="needs all 2 chunks of its rank, in order"):
        made.with_rows({lane: [*map(swapped, row)] for lane, row in made.rows.items()}).prove()
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: chunked(program, 0), "0 chunks; give 1 or more"),
        (lambda: fine_grained(program, 0), "0 column blocks; give 1 or more"),
        (lambda: fine_grained(made, 2), "has chunks or collectives inside a node"),
        (lambda: fine_grained(expert_layer(2, 2), 2), "has chunks or collectives inside a node"),
        (lambda: shortcut(program, 2), "slot 2, and 1 operators are before the experts"),
        (lambda: sliced(program, [0.5]), "give parts of 0 or more that are 1 together"),
        (lambda: expert_layer(0), "0 nodes of 1 ranks; give 1 or more of each"),
    ]
    for refused, words in cases:
        with pytest.raises(ProgramError, match=words):
            refused()
