"""The estimator of an engine: host times, and attention that does not share KV among query heads."""

from __future__ import annotations

import pytest

from poise.catalogue import device, model
from poise.catalogue.engines import Reached, engine_defaults
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.scenario.engine_cost import cost_for
from poise.validation.batch import decode_s, prefill_s
from poise.validation.naive import naive_cost

POOL = Pool(model("llama-3.1-8b"), device("MI300X"))


def test_an_engine_s_host_times_are_in_every_step() -> None:
    old, new = (cost_for(Pool(model("llama-3.1-8b"), device("H100")), "vLLM", v) for v in ("0.5", "0.15"))
    shape, (one, other) = StepShape(16), (engine_defaults("vLLM", v) for v in ("0.5", "0.15"))
    host_s = one.step_s - other.step_s + 16 * (one.sequence_s - other.sequence_s)
    assert host_s > 0.001
    assert old.step(shape).base - new.step(shape).base == pytest.approx(1e12 * host_s)


def test_reading_for_each_query_head_takes_as_many_times_longer() -> None:
    shape = StepShape(10)
    grouped, ungrouped = cost_for(POOL, "vLLM", "0.15").step(shape), cost_for(POOL, "vLLM", "0.5").step(shape)
    assert ungrouped.per_kv >= 2 * 32 / 8 * grouped.per_kv
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


def test_what_an_engine_reaches_is_its_own_on_each_device() -> None:
    old = engine_defaults("vLLM", "0.5")
    assert old.reached_on(device("MI250")) == old.reached["MI250"]
    assert old.reached_on(device("MI355X")) == old.reached["AMD"]
    assert old.reached_on(device("L4")) == Reached() == engine_defaults("SGLang").reached_on(device("L4"))


def test_mixtures_of_experts_may_reach_less_than_other_models() -> None:
    known = engine_defaults("SGLang")
    for name in ("MI300X", "MI355X"):
        dense, sparse = (known.reached_on(device(name), experts=experts) for experts in (False, True))
        assert sparse.bandwidth < dense.bandwidth and sparse.layer_s > dense.layer_s
    vllm = engine_defaults("vLLM")
    assert vllm.reached_on(device("MI300X"), experts=True) == vllm.reached_on(device("MI300X"))
    assert known.reached_on(device("MI300X"), experts=True).arithmetic < known.reached_on(device("MI325X")).arithmetic


@pytest.mark.parametrize(
    ("name", "tpot_ms", "ttft_ms"), [("llama-3.3-70b", 19.8, 576.0), ("llama-3.1-405b", 37.9, 2442.0)]
)
def test_trainium_is_near_its_published_points(name: str, tpot_ms: float, ttft_ms: float) -> None:
    """One client with 10,000 tokens on 16 Trainium2, as the Neuron SDK's tutorials print; a plain −56, −26 %."""
    estimator = cost_for(Pool(model(name), device("Trainium2"), tensor=16), "vLLM", "")
    assert decode_s(estimator, 1, 10_000, 1500) / 1500 == pytest.approx(tpot_ms / 1e3, rel=0.2)
    assert prefill_s(estimator, 1, 10_000, 10_000) == pytest.approx(ttft_ms / 1e3, rel=0.2)


def test_launches_and_lesser_figures_slow_every_step() -> None:
    pool = Pool(model("llama-3.1-8b"), device("A100"))
    shape = StepShape(4, (Chunk(512, 0),))
    llama, plain = cost_for(pool, "llama.cpp", "").step(shape), cost_for(pool, "vLLM", "0.19").step(shape)
    launch_s = engine_defaults("llama.cpp").reached_on(pool.device).layer_s
    assert llama.base > plain.base + 1e12 * 32 * launch_s
    assert llama.per_kv > plain.per_kv
