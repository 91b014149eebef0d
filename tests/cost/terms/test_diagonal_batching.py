"""Diagonals as steps: the closed form of a prompt, decodes that forget, and no less than the cells' work."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, Piece, StepShape
from poise.core.spec import Cluster, Pool
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.cost.diagonal_batching import Cells, diagonal_s, sequential_s
from poise.cost.term import Termed
from poise.cost.terms.diagonal_batching import DiagonalBatching
from poise.cost.work import Works
from poise.scenario.simulate import simulate
from poise.workload import all_at_once
from tests.cost.pools import pools, shares

POOL = Pool(model("llama-3.2-1b"), device("A100"))
INNER = Roofline().build(POOL)


def prompt(term: DiagonalBatching, tokens: int, context: int = 0) -> int:
    return term.around(INNER, POOL).step(StepShape(0, (Chunk(tokens, context),))).base


@pytest.mark.parametrize("reached", [0.5, 1.0])
@pytest.mark.parametrize("segments", [1, 8, 128])
def test_a_prompt_is_the_closed_form(segments: int, reached: float) -> None:
    cells = Cells(POOL, 512, 64)
    _, k = Works(POOL).lane(1.0)
    for grouped, joined in ((True, diagonal_s), (False, sequential_s)):
        term = DiagonalBatching(512, 64, reached, grouped)
        cell = partial(cells.grouped_s, reached=reached)
        expected = joined(segments, POOL.model.layers, cell) * SECOND + k.step + k.sequence + k.last(1)
        assert prompt(term, 512 * segments) == pytest.approx(expected, abs=2)
        assert prompt(term, 512 * segments, 4096) == prompt(term, 512 * segments - 511)


def test_chunks_go_one_after_another_and_cells_of_some_layers_alone() -> None:
    estimator = DiagonalBatching().around(INNER, POOL)
    one, two = (estimator.step(StepShape(0, (Chunk(4096, 0),) * n)).base for n in (1, 2))
    _, k = Works(POOL).lane(1.0)
    assert two - one == pytest.approx(one - k.step + k.last(2) - 2 * k.last(1), abs=4)
    half = estimator.step(StepShape(0, (Chunk(4096, 0, 0, 8),))).base
    cell = Cells(POOL).grouped_s
    assert half == pytest.approx(diagonal_s(4, 8, cell) * SECOND + k.step + k.sequence, abs=2)


@given(st.integers(1, 300), st.integers(1, 4096), st.integers(0, 300))
def test_a_decode_reads_its_segment_and_the_memory(decodes: int, segment: int, memory: int) -> None:
    found = DiagonalBatching(segment, memory).around(INNER, POOL).step(StepShape(decodes))
    plain = INNER.step(StepShape(decodes))
    read = plain.base + plain.per_kv * decodes * (segment // 2 + memory)
    if memory:
        written = INNER.step(StepShape(0, (Chunk(memory, segment),))).base
        read += round(written * decodes / segment)
    assert found == Piece(read)


@given(pools(spread=False), st.integers(1, 5000), st.integers(1, 600), st.integers(0, 100), st.booleans(), shares)
def test_no_faster_than_the_work_of_its_cells(
    pool: Pool, tokens: int, segment: int, memory: int, grouped: bool, share: float
) -> None:
    """Each segment passes all layers; the head is left out."""
    works = Works(pool)
    _, k = works.lane(share)
    work = works.of(StepShape(0, (Chunk(segment + memory, 0),), share))
    bound = max(work.arithmetic.base - k.head_token, work.memory.base - k.head_weights, work.network.base)
    estimator = DiagonalBatching(segment, memory, grouped=grouped).around(Roofline().build(pool), pool)
    base = estimator.step(StepShape(0, (Chunk(tokens, 0),), share)).base
    assert base >= -(-tokens // segment) * bound * (1 - 1e-9)


@given(st.integers(1, 100_000), st.integers(0, 100_000), st.integers(0, 64), st.floats(0.05, 1), st.booleans())
def test_more_tokens_take_no_less(tokens: int, more: int, decodes: int, reached: float, grouped: bool) -> None:
    estimator = DiagonalBatching(reached=reached, grouped=grouped).around(INNER, POOL)
    few, many = (estimator.step(StepShape(decodes, (Chunk(n, 0),))).base for n in (tokens, tokens + more))
    assert few <= many
    assert estimator.step(StepShape(decodes)).base < few


@given(st.integers(1, 100_000), st.floats(0.05, 1))
def test_grouping_never_loses(tokens: int, reached: float) -> None:
    by, one = (prompt(DiagonalBatching(reached=reached, grouped=grouped), tokens) for grouped in (True, False))
    assert by <= one


def test_a_request_in_the_simulator_takes_its_chunks_and_as_long_for_each_token() -> None:
    term = DiagonalBatching(memory=0)
    load = all_at_once(requests=1, prompt_tokens=16_384, output_tokens=100)
    run = simulate(Cluster((POOL,)), load, cost=Termed(Roofline(), (term,)))
    estimator, records = term.around(INNER, POOL), run.records
    budget = POOL.engine.token_budget
    chunks = [estimator.step(StepShape(0, (Chunk(budget, at),))).base for at in range(0, 16_384, budget)]
    assert records.first_token_at[0] == sum(chunks)
    assert records.ended_at[0] - records.first_token_at[0] == 99 * estimator.step(StepShape(1)).base


@pytest.mark.parametrize("pool", [replace(POOL, pipeline=2), replace(POOL, data=2)])
def test_pools_of_more_than_one_group(pool: Pool) -> None:
    with pytest.raises(ScenarioError, match="give 1 of each"):
        DiagonalBatching().around(Roofline().build(pool), pool)


@pytest.mark.parametrize("wrong", [{"segment": 0}, {"memory": -1}, {"reached": 0.0}, {"reached": 1.1}])
def test_parameters(wrong: dict[str, float]) -> None:
    with pytest.raises(ScenarioError, match=r"; give "):
        DiagonalBatching(**wrong)  # type: ignore[arg-type]
