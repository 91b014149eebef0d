"""Weaving: only large steps, no more than the all-reduces and norms that it hides, never below a resource's work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.terms.token_weave import TokenWeave, Woven
from poise.cost.work import Works
from tests.cost.pools import pools

POOL = Pool(model("llama-3.3-70b"), device("H100"), tensor=8)
INNER = Roofline().build(POOL)


@given(pools(), st.integers(0, 600), st.integers(0, 6000), st.integers(0, 5000), st.floats(0, 0.5))
def test_between_arithmetic_or_links_and_the_inner_step(
    pool: Pool, decodes: int, new: int, context: int, sms: float
) -> None:
    shape = StepShape(decodes, (Chunk(new, context),) if new else ())
    inner = Roofline().build(pool)
    found = TokenWeave(sms).around(inner, pool).step(shape)
    assert found.base <= inner.step(shape).base and found[1:] == inner.step(shape)[1:]
    if decodes or new:
        work = Works(pool).of(shape)
        assert found.base >= max(work.arithmetic.base, work.network.base) * (1 - 1e-9) - 1


def test_few_decodes_gain_nothing_and_prompts_do() -> None:
    woven = TokenWeave().around(INNER, POOL)
    assert woven.step(StepShape(16)) == INNER.step(StepShape(16))
    gains = [INNER.step(shape).base / woven.step(shape).base for shape in prompts(1024, 2048, 8192)]
    assert gains == sorted(gains) and gains[0] > 1


def test_communication_that_takes_more_sms_hides_less() -> None:
    (shape,) = prompts(4096)
    times = [TokenWeave(sms).around(INNER, POOL).step(shape).base for sms in (0.0, 0.05, 0.2)]
    assert times == sorted(times) and times[0] < times[-1]


def test_what_is_hidden_is_no_more_than_all_reduces_and_norms() -> None:
    (shape,) = prompts(8192)
    woven = TokenWeave(0.0).around(INNER, POOL)
    assert isinstance(woven, Woven)
    hidden = POOL.model.layers * (woven.works.reduced(1.0, 8192) + woven._norms(1.0, 8192))
    assert 0.9 * hidden < INNER.step(shape).base - woven.step(shape).base <= hidden


def test_one_device_has_nothing_to_weave() -> None:
    pool = Pool(model("llama-3.1-8b"), device("H100"))
    inner = Roofline().build(pool)
    assert TokenWeave().around(inner, pool) is inner
    with pytest.raises(ScenarioError, match="sms"):
        TokenWeave(1.0)


def prompts(*tokens: int) -> list[StepShape]:
    return [StepShape(0, (Chunk(each, 0),)) for each in tokens]
