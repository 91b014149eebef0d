"""A feed-forward block cut over all ranks costs what a dense one does on one data rank, and a part of that on more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.catalogue import device, model
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline, kv_blocks
from poise.cost.cells import cut, priced
from poise.cost.layout import shard

DENSE = model("llama-3.1-8b")
POOL = Pool(DENSE, device("H100"), tensor=2)
SHAPES = [StepShape(64), StepShape(1), StepShape(8, (Chunk(2048, 0),)), StepShape(0, (Chunk(300, 500),) * 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_on_one_data_rank_it_is_the_dense_model(shape: StepShape) -> None:
    dense = Roofline().build(POOL).step(shape)
    cells = priced(Roofline()).build(replace(POOL, model=cut(DENSE))).step(shape)
    assert cells.base == pytest.approx(dense.base, rel=0.05) and cells.per_kv == dense.per_kv
    assert kv_blocks(replace(POOL, model=cut(DENSE))) == pytest.approx(kv_blocks(POOL), rel=0.001)


def test_on_more_each_holds_a_part_of_the_block_and_all_of_its_attention() -> None:
    one, four = (shard(replace(POOL, model=cut(DENSE), data=data)) for data in (1, 4))
    assert four.experts == one.experts / 4 and four.attention == one.attention
    whole = shard(replace(POOL, data=4))
    assert whole.dense == pytest.approx(one.experts) and whole.experts == 0


def test_few_tokens_gain_from_weights_in_parts_and_no_model_with_experts_changes() -> None:
    pool = replace(POOL, data=4)
    copied = Roofline().build(pool).step(StepShape(4)).base
    assert priced(Roofline()).build(replace(pool, model=cut(DENSE))).step(StepShape(4)).base < copied
    mixture = model("mixtral-8x7b")
    assert cut(mixture) is mixture
