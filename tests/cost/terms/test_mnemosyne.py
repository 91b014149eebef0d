"""Chunks that follow one another through stages, and KV over groups: limits, closed forms, nothing lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Cluster, Engine, Pool
from poise.cost import Roofline
from poise.cost.term import Termed
from poise.cost.terms.mnemosyne import Mnemosyne, cut, prompt, token_s
from poise.policies import Policies
from poise.policies.batch.medha import Medha
from poise.scenario.simulate import simulate
from poise.sim.terms import Watching
from poise.testing.invariants import check_world
from poise.workload import lognormal, poisson

POOL = Pool(model("llama-3-8b"), device("H100"), tensor=8, pipeline=4)
CHUNKS = st.lists(
    st.tuples(st.integers(1, 9000), st.integers(0, 10**6)).map(lambda each: Chunk(*each)), max_size=3
).map(tuple)


@given(st.integers(1, 10_000), st.integers(0, 10**7), st.integers(1, 16))
def test_parts_are_the_chunk(tokens: int, context: int, parts: int) -> None:
    found = cut(Chunk(tokens, context), parts)
    assert len(found) == min(parts, tokens) and found[0].context == context
    assert all(one.context + one.tokens == two.context for one, two in pairwise(found))
    assert found[-1].context + found[-1].tokens == context + tokens
    assert cut(Chunk(tokens, context, 0, 4), parts) == [Chunk(tokens, context, 0, 4)]  # some layers: as it is


@settings(deadline=None)
@given(st.integers(0, 64), CHUNKS)
def test_one_stage_and_one_group_change_nothing(decodes: int, chunks: tuple[Chunk, ...]) -> None:
    pool, shape = replace(POOL, pipeline=1), StepShape(decodes, chunks)
    assert Termed(Roofline(), (Mnemosyne(),)).build(pool).step(shape) == Roofline().build(pool).step(shape)


@settings(deadline=None)
@given(st.integers(1, 64), CHUNKS, st.integers(0, 10**7))
def test_spreading_is_taken_where_it_is_shorter(decodes: int, chunks: tuple[Chunk, ...], kv: int) -> None:
    pool, shape = replace(POOL, data=2), StepShape(decodes, chunks)
    times = []
    for kvp in (True, False):
        piece = Termed(Roofline(), (Mnemosyne(kvp=kvp),)).build(pool).step(shape).at(kv)
        times.append(piece.base + piece.per_kv * kv)
    assert times[0] <= times[1] * (1 + 1e-9) + kv  # slopes are whole picoseconds


def test_a_long_prompt_is_sooner_by_nearly_the_number_of_stages() -> None:
    for stages in (2, 4, 8):
        found = prompt(replace(POOL, pipeline=stages), 1_000_000)
        assert 0.95 * stages < found.chunked_s / found.spp_s < stages


def test_reading_kv_is_divided_and_the_rest_is_not() -> None:
    """A token's time is a line in its context, whose slope falls by the groups."""
    slopes = []
    for groups in (1, 2, 4):
        pool = replace(POOL, data=groups)
        slopes.append(token_s(pool, 8_000_000) - token_s(pool, 4_000_000))
    assert slopes[0] / slopes[1] == pytest.approx(2, rel=1e-3) and slopes[0] / slopes[2] == pytest.approx(4, rel=1e-3)


def test_nothing_is_lost_and_single_steps_agree() -> None:
    load = poisson(2, requests=40, prompt_tokens=lognormal(20_000, 2.0), output_tokens=lognormal(40, 0.6), seed=4)
    pool = replace(POOL, pipeline=2, data=2, engine=Engine(token_budget=16_384))
    runs = [
        simulate(
            Cluster((pool,)), load, Policies(batcher=Medha()), cost=Termed(Roofline(), (Mnemosyne(),)),
            one_step=one_step, watching=Watching(after_event=None if one_step else check_world),
        ).records
        for one_step in (False, True)
    ]  # fmt: skip
    assert runs[0].ended_at == runs[1].ended_at and min(runs[0].ended_at) > 0
