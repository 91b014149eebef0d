"""Chunks and slices of FSMoE: proven, and as long as the closed form says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.program import Program
from poise.program.expert_layer import Works, expert_layer
from poise.program.passes.fsmoe import Layer, Part, chunked
from poise.program.passes.slices import filled, sliced
from tests.program.passes.expert_layers import WHOLE, few, makespan


def layer_of(starts: tuple[int, int, int], wholes: tuple[int, int, int], reduction: int) -> tuple[Program, Layer]:
    a, g, e = wholes
    works = Works(a, g, e, 0, g, a)
    one, two, three = (Part(*each) for each in zip(starts, wholes, strict=True))
    return expert_layer(2, 2, works, reduction=reduction), Layer(one, two, three, reduction)


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
