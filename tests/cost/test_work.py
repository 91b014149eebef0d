"""The work of a step by resource, against the roofline that adds up the same operators."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Measured, Roofline
from poise.cost.efficiency import Efficiencies
from poise.cost.terms.nanoflow import NanoFlow
from poise.cost.work import Works, efficiencies
from poise.testing.cost import LinearCost
from tests.cost.pools import cost, pools, shares


@given(pools(), st.integers(0, 300), st.integers(0, 2000), st.integers(0, 5000), shares)
def test_no_step_of_the_roofline_beats_its_largest_resource(
    pool: Pool, decodes: int, new: int, context: int, share: float
) -> None:
    if not decodes and not new:
        return
    shape = StepShape(decodes, (Chunk(new, context),) if new else (), share)
    work, kv = Works(pool).of(shape), float(decodes * context)
    taken = cost(Roofline().build(pool), shape, context)
    assert work.bound(kv) <= work.series.at(kv) * (1 + 1e-9) + 1
    assert work.series.at(kv) <= taken * (1 + 1e-9) + decodes + 1


def test_parts_read_the_weights_once_each() -> None:
    pool = Pool(model("llama-3.1-8b"), device("H100"))
    whole, halves = (Works(pool).of(StepShape(512), parts) for parts in (1, 2))
    read = pool.model.layers * Works(pool).lane(1.0)[1].weights
    assert halves.memory.base - whole.memory.base == pytest.approx(read)
    assert halves.arithmetic == whole.arithmetic and halves.series.base > whole.series.base


def test_an_iteration_of_nanoflows_table() -> None:
    """LLaMA-2-70B, eight A100, 2,048 tokens at the datasheet's peaks: 114 ms of arithmetic (arXiv 2408.12757, 3)."""
    pool = Pool(model("llama-2-70b"), device("A100"), tensor=8)
    use = Roofline(gemm_bf16=1.0)
    work = Works(pool, use).of(StepShape(2048))
    assert work.arithmetic.base / 1e9 == pytest.approx(114, rel=0.04)


def test_terms_count_with_what_they_are_around() -> None:
    pool = Pool(model("llama-3.1-8b"), device("H100"))
    slow = Roofline(gemm_bf16=0.4)
    assert efficiencies(NanoFlow().around(slow.build(pool), pool)) == slow
    assert efficiencies(Measured(gemm_bf16=0.3).build(pool)).gemm_bf16 == 0.3
    assert efficiencies(LinearCost()) == Efficiencies()
    shape = StepShape(0, (Chunk(4096, 0),))
    taken = NanoFlow(1.0).around(slow.build(pool), pool).step(shape).base
    assert taken >= Works(pool, slow).of(shape).bound(0) > Works(pool).of(shape).bound(0)
