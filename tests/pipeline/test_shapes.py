"""Volumes of PPMoE and GNNPipe: their closed forms, and the schedules that they make shorter."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, make, time
from poise.pipeline.shapes import Experts, GraphLayers, with_exchange

ranks = st.integers(2, 16)
rates = st.integers(1, 99).map(Fraction)


@given(st.integers(1, 9), st.integers(1, 4), ranks, ranks, rates, rates)
def test_the_crossover_is_where_both_take_as_long(
    tokens: int, top: int, tensor: int, expert: int, near: Fraction, far: Fraction
) -> None:
    layer = Experts(Fraction(tokens), top, tensor, expert)
    assert layer.all_reduce(far * layer.crossover) == layer.all_to_all(far)
    assert (layer.all_reduce(near) < layer.all_to_all(far)) == (near / far > layer.crossover)


def test_experts_of_a_host_or_across_hosts() -> None:
    """Top 2, 8 ranks each: a group may be as slow as 1 / 2 of the links across; the schedule gains the difference."""
    layer = Experts(Fraction(100), 2, 8, 8)
    assert layer.crossover == Fraction(1, 2)
    near, far = layer.all_reduce(Fraction(175)), layer.all_to_all(Fraction(175))
    assert (near, far) == (1, 2)
    one, two = (with_exchange(Costs.of(), each, 3) for each in (near, far))
    lost = time(make("gpipe", 4, 8), two).makespan - time(make("gpipe", 4, 8), one).makespan
    assert lost == (8 + 3) * 2 * 3


@given(st.integers(2, 9), st.integers(1, 99), st.integers(2, 8), st.integers(0, 99))
def test_a_pipeline_of_layers_sends_each_vertex_once_a_boundary(
    stages: int, vertices: int, layers: int, halo: int
) -> None:
    graph = GraphLayers(vertices, layers, 4, halo)
    assert Fraction(graph.partitioned(), graph.pipelined(stages)) == Fraction(layers * halo, (stages - 1) * vertices)


def test_chunks_of_a_graph_are_microbatches() -> None:
    graph = GraphLayers(1000, 8, 4, 200)
    for chunks in (1, 4, 8):
        costs = graph.costs(Costs.of(8, 8, 8), chunks, Fraction(4000))
        assert time(make("gpipe", 4, chunks), costs).makespan == 24 * Fraction(chunks + 3, chunks) + Fraction(6, chunks)


def test_mistakes_are_named() -> None:
    with pytest.raises(ScheduleError, match="experts over 1 rank"):
        _ = Experts(Fraction(1), 1, 2, 1).crossover
    with pytest.raises(ScheduleError, match="bandwidth 0"):
        Experts(Fraction(1), 1, 2, 2).all_reduce(Fraction(0))
    with pytest.raises(ScheduleError, match="0 chunks"):
        GraphLayers(1, 1, 1, 1).costs(Costs.of(), 0, Fraction(1))
