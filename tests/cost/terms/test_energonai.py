"""What padding and waiting stages add, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.catalogue import device, model
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.terms.energonai import EnergonAI, padded

POOL = Pool(model("opt-30b"), device("A100"), tensor=2, pipeline=2)
INNER = Roofline().build(POOL)


def test_padding_costs_what_equal_lengths_would() -> None:
    chunks = (Chunk(64, 0), Chunk(512, 0), Chunk(128, 0))
    found = EnergonAI(padding=True).around(INNER, POOL).step(StepShape(4, chunks))
    assert found == INNER.step(StepShape(4, (Chunk(512, 0),) * 3)) and padded(chunks)[0].tokens == 512
    equal = StepShape(0, (Chunk(512, 0),) * 3)
    assert EnergonAI(padding=True).around(INNER, POOL).step(equal) == INNER.step(equal)


def test_waiting_stages_send_twice_as_long() -> None:
    shape = StepShape(64, (Chunk(512, 0),))
    base = INNER.step(shape).base
    waiting = EnergonAI(blocking=True).around(INNER, POOL).step(shape).base
    sends = base - Roofline(far_s=0.0, collective_s=0.0, link=1e9).build(POOL).step(shape).base
    assert 0 < waiting - base < sends  # which are all-reduces too
    single = replace(POOL, pipeline=1)
    inner = Roofline().build(single)
    assert EnergonAI(blocking=True).around(inner, single).step(shape) == inner.step(shape)


def test_without_both_it_is_the_inner_one() -> None:
    assert EnergonAI().around(INNER, POOL) is INNER
    assert EnergonAI(padding=True).around(INNER, POOL).step(StepShape(8)) == INNER.step(StepShape(8))


@pytest.mark.parametrize("term", [EnergonAI(True, False), EnergonAI(False, True)])
def test_it_says_what_it_is(term: EnergonAI) -> None:
    assert term.around(INNER, POOL).describe()["energonai"] == {"padding": term.padding, "blocking": term.blocking}
