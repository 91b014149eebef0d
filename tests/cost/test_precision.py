"""Formats by part: the slow account agrees, bytes are those of the parts, and each part has its own kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.estimate import StepShape
from poise.core.precision import BITS, PARTS, Precision, Store, uniform
from poise.core.spec import Engine, Pool
from poise.cost import Measured, Roofline
from poise.cost.memory import footprint

from .pools import pools
from .reference import Slow

stores = st.sampled_from(sorted(BITS)).map(lambda form: Store(form, BITS[form]))  # type: ignore[arg-type]
precisions = st.builds(Precision, **dict.fromkeys(PARTS, stores))


@given(pools(), precisions, st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_a_step_by_parts_equals_the_slow_account(pool: Pool, parts: Precision, decodes: int) -> None:
    """Layers of one kind: a mean layer takes the larger of arithmetic and bytes of all its parts together."""
    shape = pool.model
    moe = shape.moe and replace(shape.moe, layers=shape.layers)
    alike = replace(shape, moe=moe, linear_layers=0, window_layers=0, window=0)
    pool = replace(pool, model=alike, parts=parts)
    requests = decodes * pool.data * pool.pipeline
    piece = Roofline().build(pool).step(StepShape(requests))
    slow = Slow(pool, Roofline()).step([7] * requests, []) * 1e12
    assert piece.base + piece.per_kv * 7 * requests == pytest.approx(slow, rel=1e-9, abs=2 + 8 * requests)


@given(pools(), precisions)
@settings(deadline=None)
def test_devices_hold_at_least_the_weights(pool: Pool, parts: Precision) -> None:
    pool = replace(pool, parts=parts)
    once = replace(pool, model=replace(pool.model, linear_layers=0, window_layers=0, window=0))
    assert footprint(once).weights * once.devices >= once.weight_bytes * (1 - 1e-9)


@given(pools())
@settings(deadline=None)
def test_a_word_is_its_parts(pool: Pool) -> None:
    spelt = replace(pool, parts=uniform(pool.weights, latent=pool.model.mla is not None))
    for decodes in (1, 64):
        assert Roofline().build(spelt).step(StepShape(decodes)) == Roofline().build(pool).step(StepShape(decodes))
    assert footprint(spelt) == footprint(pool)


def tables(name: str, on: str, weights: str, engine: str, **layout: int) -> dict[str, str]:
    """The tables behind each operator."""
    pool = Pool(model(name), device(on), weights=weights, engine=Engine(engine), **layout)  # type: ignore[arg-type]
    found = Measured().build(pool).describe()["tables"]
    assert isinstance(found, dict)
    return {kind: each["table"] for kind, each in found.items()}


@pytest.mark.parametrize(
    ("on", "engine", "experts"),
    [
        ("H100", "vllm", "mxfp4_wo"),
        ("B200", "vllm", "mxfp4_wo"),
        ("B200", "sglang", "mxfp4_fp8"),
        ("B200", "trtllm", "mxfp4_fp8"),
    ],
)
def test_experts_alone_are_narrow_and_by_the_engines_kernel(on: str, engine: str, experts: str) -> None:
    found = tables("gpt-oss-120b", on, "fp4", engine)
    assert {name.split(" from ")[0] for name in found if name.startswith(("gemm", "moe"))} == {
        "gemm bf16",
        f"moe {experts}",
    }
    assert engine in found[f"moe {experts}"]


def test_narrow_products_without_a_table_run_by_the_engines_own_kernels() -> None:
    found = tables("llama-3.1-8b", "H100", "int4", "vllm")["gemm int4_wo"]
    assert "vllm" in found and "H100" in found
    assert "trtllm" in tables("llama-3.1-8b", "A100", "int4", "trtllm")["gemm int4_wo"]


def test_latent_attention_of_a_published_checkpoint() -> None:
    """Projections into latent attention stay at 16 bits, the one out of it is narrow."""
    found = tables("deepseek-r1", "B200", "fp4", "sglang", tensor=8)
    assert {"gemm bf16", "gemm nvfp4", "moe nvfp4"} <= set(found)
    assert "mla_prefill_module bf16" in tables("deepseek-r1", "B200", "fp4", "trtllm", tensor=8)
