"""Layers of experts cut by FSMoE, Comet and ScMoE: proven, and as long as their closed forms say."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ProgramError
from poise.program import Content, Program
from poise.program.contributions import contributions
from poise.program.expert_layer import Works, expert_layer
from poise.program.order import ordered
from poise.program.passes.comet import Tiled, fine_grained
from poise.program.passes.fsmoe import Layer, Part, chunked
from poise.program.passes.scmoe import best_slot, seconds, shortcut
from poise.program.passes.slices import filled, sliced
from poise.program.task import Task
from poise.program.timed import timed

SCALE = 5040
"""Ticks: divisible by the numbers of chunks, columns and ranks below."""
START = {"dispatch": 0, "combine": 0, "token_gather": 1, "token_scatter": 1, "up": 2}
WHOLE = st.integers(0, 30)
few = settings(max_examples=40, deadline=None)


def makespan(program: Program, starts: tuple[int, int, int] = (0, 0, 0)) -> Fraction:
    """As simulated; a receive ends when its message has been sent."""

    def ticks(task: Task) -> int:
        start = starts[START[task.kind]] if task.kind in START else 0
        return 0 if task.kind == "recv" else round(SCALE * (start + task.work))

    all_ticks = [ticks(task) for task in program.index.tasks]
    return timed(program, all_ticks, [0] * len(all_ticks), SCALE).makespan


def layer_of(starts: tuple[int, int, int], wholes: tuple[int, int, int], reduction: int) -> tuple[Program, Layer]:
    a, g, e = wholes
    works = Works(a, g, e, 0, g, a)
    parts = [Part(*each) for each in zip(starts, wholes, strict=True)]
    return expert_layer(2, 2, works, reduction=reduction), Layer(*parts, reduction)


@few
@given(st.tuples(*[st.integers(0, 4)] * 3), st.tuples(*[WHOLE] * 3), WHOLE, st.sampled_from([1, 2, 3, 4, 6, 8]))
def test_chunks_take_what_the_longest_case_says(
    starts: tuple[int, int, int], wholes: tuple[int, int, int], reduction: int, chunks: int
) -> None:
    program, layer = layer_of(starts, wholes, reduction)
    made = chunked(program, chunks)
    made.prove()
    assert float(makespan(made, starts)) == pytest.approx(layer.seconds(chunks), abs=1e-3)


@few
@given(st.tuples(*[st.integers(0, 4)] * 3), st.tuples(*[st.integers(0, 300)] * 3), st.integers(0, 300))
def test_the_best_number_of_chunks_is_that_of_all(
    starts: tuple[int, int, int], wholes: tuple[int, int, int], reduction: int
) -> None:
    _, layer = layer_of(starts, wholes, reduction)
    assert layer.seconds(layer.best(40)) == pytest.approx(min(map(layer.seconds, range(1, 41))), rel=1e-12)


def test_the_best_number_of_chunks_is_that_of_the_simulation() -> None:
    program, layer = layer_of((1, 1, 2), (20, 10, 30), 5)
    found = {chunks: makespan(chunked(program, chunks), (1, 1, 2)) for chunks in range(1, 13)}
    assert found[layer.best(12)] == min(found.values()) < found[1]


@few
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 4))
def test_slices_of_a_sum_are_the_sum(parts: list[int], chunks: int) -> None:
    program, layer = layer_of((0, 0, 0), (4, 2, 7), 9)
    made = chunked(sliced(program, [each / sum(parts) for each in parts]), chunks)
    assert made.prove().collectives == 4 * 2 * chunks + len(parts)
    assert float(makespan(made)) == pytest.approx(layer.seconds(chunks), abs=1e-2)
    assert sum(filled(9.0, [2.0, -1.0, 3.0])) == 9.0 and filled(9.0, [2.0, -1.0, 3.0]) == [2, 0, 3, 4]


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
    for refused, words in [
        (lambda: chunked(program, 0), "0 chunks; give 1 or more"),
        (lambda: fine_grained(program, 0), "0 column blocks; give 1 or more"),
        (lambda: fine_grained(made, 2), "has chunks or collectives inside a node"),
        (lambda: fine_grained(expert_layer(2, 2), 2), "has chunks or collectives inside a node"),
        (lambda: shortcut(program, 2), "slot 2, and 1 operators are before the experts"),
        (lambda: sliced(program, [0.5]), "give parts of 0 or more that are 1 together"),
        (lambda: expert_layer(0), "0 nodes of 1 ranks; give 1 or more of each"),
    ]:
        with pytest.raises(ProgramError, match=words):
            refused()
