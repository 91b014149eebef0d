"""The estimator of an engine: host times, and attention that does not share KV among query heads."""

from __future__ import annotations

import pytest

from poise.catalogue import device, model
from poise.core.estimate import StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.truth.validate.cost import cost_for, naive_cost

POOL = Pool(model("llama-3.1-8b"), device("MI300X"))


def test_an_engine_s_host_times_are_in_every_step() -> None:
    old, new = (cost_for(Pool(model("llama-3.1-8b"), device("H100")), "vLLM", v) for v in ("0.5", "0.15"))
    shape = StepShape(10)
    assert old.step(shape).base - new.step(shape).base == pytest.approx(1e12 * (0.001 + 10 * 60e-6))


def test_reading_for_each_query_head_takes_as_many_times_longer() -> None:
    shape = StepShape(10)
    grouped, ungrouped = cost_for(POOL, "vLLM", "0.15").step(shape), cost_for(POOL, "vLLM", "0.5").step(shape)
    assert ungrouped.per_kv == pytest.approx(2 * 32 / 8 * grouped.per_kv, rel=1e-6)
    estimator = cost_for(POOL, "vLLM", "0.5")
    plain = Roofline().build(POOL)
    assert (estimator.window, estimator.kv_bytes(100)) == (plain.window, plain.kv_bytes(100))
    assert estimator.describe()["kv_reading"] == 8


@pytest.mark.parametrize("decodes", [1, 64, 512])
def test_the_naive_one_is_never_slower(decodes: int) -> None:
    shape = StepShape(decodes)
    bare, real = naive_cost(POOL).step(shape), cost_for(POOL, "vLLM", "").step(shape)
    assert bare.base < real.base
    assert bare.per_kv <= real.per_kv
