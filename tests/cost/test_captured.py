"""Captured batches: the sizes that engines capture, and what a batch between two of them costs."""

from __future__ import annotations

import pytest

from poise.catalogue import device, model
from poise.catalogue.engines import engine_defaults
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.captured import Captured, padded
from poise.scenario.engine_cost import cost_for

POOL = Pool(model("llama-3.1-8b"), device("H100"))
INNER = Roofline().build(POOL)
VLLM = engine_defaults("vllm").captured


def test_sizes_are_those_of_vllm() -> None:
    """[1, 2, 4], multiples of 8 up to 256, and of 16 up to 512."""
    captured = [1, 2, 4, *range(8, 257, 8), *range(272, 513, 16)]
    for decodes in range(1, 513):
        assert padded(decodes, VLLM) == min(size for size in captured if size >= decodes)
    assert padded(600, VLLM) == 600, "beyond the largest a step is not captured"


@pytest.mark.parametrize(("decodes", "size"), [(1, 1), (3, 4), (100, 104), (128, 128), (129, 129)])
def test_tensorrt_captures_up_to_128(decodes: int, size: int) -> None:
    assert padded(decodes, engine_defaults("tensorrt-llm").captured) == size


def test_a_batch_costs_what_the_next_larger_one_does_and_reads_its_own_kv() -> None:
    estimator = Captured(INNER, VLLM)
    piece = estimator.step(StepShape(9))
    assert piece.base == INNER.step(StepShape(16)).base > INNER.step(StepShape(9)).base
    assert piece[1:] == INNER.step(StepShape(9))[1:]
    assert estimator.step(StepShape(16)) == INNER.step(StepShape(16))
    bases = [estimator.step(StepShape(decodes)).base for decodes in range(1, 600)]
    assert bases == sorted(bases)


def test_prompts_are_not_captured() -> None:
    shape = StepShape(9, (Chunk(100, 0),))
    assert Captured(INNER, VLLM).step(shape) == INNER.step(shape)


def test_each_rank_of_attention_has_its_own_graph() -> None:
    assert Captured(INNER, VLLM, ranks=4).step(StepShape(33)).base == INNER.step(StepShape(4 * 16)).base


def test_experts_are_spared_the_rows_in_excess() -> None:
    dense, routed = cost_for(POOL, "vllm", ""), cost_for(Pool(model("qwen3-30b-a3b"), device("H100")), "vllm", "")
    assert "captured" in dense.describe() and "captured" not in routed.describe()


def test_rows_in_excess_take_no_host_time() -> None:
    inner = Roofline(cpu_sequence_s=1e-3).build(POOL)
    without = Captured(Roofline(cpu_sequence_s=0.0).build(POOL), VLLM).step(StepShape(9)).base
    assert Captured(inner, VLLM, row_s=1e-3).step(StepShape(9)).base == pytest.approx(without + 9e9)
