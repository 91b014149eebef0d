"""Microbatches hide exchanges where that pays, and are never longer; the pools of CloudMatrix384 by the roofline."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError, UserError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.cost import cloudmatrix_steps as steps
from poise.cost.terms.cloudmatrix import CloudMatrix
from poise.cost.work import Works

POOL = Pool(model("qwen3-30b-a3b"), device("H100"), data=8, expert=8)


@given(st.integers(0, 4096), st.lists(st.integers(1, 8192), max_size=3), st.integers(0, 4096))
def test_never_longer_and_never_below_what_cannot_be_hidden(decodes: int, prompts: list[int], context: int) -> None:
    shape, kv = StepShape(decodes, tuple(Chunk(each, 0) for each in prompts)), decodes * context
    plain = Roofline().build(POOL)
    cut = CloudMatrix().around(plain, POOL)
    one, two = (each.step(shape).at(kv) for each in (plain, cut))
    whole, halved = one.base + one.per_kv * kv, two.base + two.per_kv * kv
    works = Works(POOL)
    builder, _ = works.lane(1.0)
    line, tokens = builder.exchange(), works.tokens(shape).all
    sent = POOL.model.layers * (line.fixed_s + line.per_byte_s * tokens) * SECOND
    assert whole - sent <= halved + 1 and halved <= whole + 1


def test_slow_links_hide_much_and_what_exchanges_nothing_is_refused() -> None:
    slow = replace(POOL, device=replace(device("H100"), scaleup_bw=20e9))
    shape = StepShape(0, (Chunk(8192, 0),) * 8)
    plain = Roofline().build(slow)
    gained = plain.step(shape).base / CloudMatrix().around(plain, slow).step(shape).base
    assert 1.1 < gained < 2.0
    for pool in (replace(POOL, data=1, expert=1), Pool(model("llama-3.1-8b"), device("H100"), data=2)):
        with pytest.raises(ScenarioError, match="nothing to hide; give a mixture of experts with 2 data ranks"):
            CloudMatrix().around(Roofline().build(pool), pool)


NPU = replace(device("Ascend-910C"), bf16_flops=752e12, int8_ops=1504e12)
decode_s, prefill_rate = (partial(each, model("deepseek-r1"), NPU) for each in (steps.decode_s, steps.prefill_rate))


def test_the_pools_of_cloudmatrix384() -> None:
    assert decode_s(96, 4224) < decode_s(96, 4224, speculation=False) < 0.06
    assert decode_s(96, 4224, popular=True) > decode_s(96, 4224)
    ideal = prefill_rate()
    assert ideal > prefill_rate(microbatches=False)
    assert prefill_rate(popular=True, spare=0) < prefill_rate(popular=True) <= ideal * 1.001
    assert prefill_rate(cached=0.5) / ideal == pytest.approx(1.8, abs=0.1)
    with pytest.raises(UserError, match="has no experts to spread over dies"):
        steps.decode_s(model("llama-3.1-8b"), NPU, 8, 100)
