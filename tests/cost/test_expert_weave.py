"""ExpertWeave: memory is the sum of what exists, and what a step reads is what its tokens chose."""

from __future__ import annotations

import pytest

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.cost.expert_weave import BYTES, _touched, room, slower

LITE, NPU = model("deepseek-v2-lite"), device("Ascend-910B")


def test_room_is_memory_less_what_lies_there() -> None:
    found = room(LITE, NPU, 2)
    assert LITE.moe is not None
    adapters = 2 * 6.45 * LITE.moe.layers * LITE.expert_parameters * BYTES
    left = 0.9 * NPU.memory_bytes - LITE.parameters * BYTES - adapters
    assert found.woven_tokens == pytest.approx(left / LITE.kv_bytes_per_token(16))
    assert found.merged_tokens == max(0.9 * NPU.memory_bytes - 2 * LITE.parameters * BYTES, 0)
    assert found.padded_tokens < found.woven_tokens
    assert room(LITE, NPU, 10).padding == pytest.approx(1.51, abs=0.005)


def test_one_adapter_that_is_never_chosen_costs_its_renumbering_alone() -> None:
    alone = slower(LITE, NPU, 1, share=0.0)
    assert 1 < alone < 1.02 < slower(LITE, NPU, 20)
    assert slower(LITE, NPU, 20) > slower(LITE, NPU, 5)


def test_experts_touched_grow_from_one_to_all() -> None:
    assert _touched(64, 1) == pytest.approx(1.0)
    assert _touched(64, 1e6) == pytest.approx(64.0)


def test_a_dense_model_has_no_experts_to_replace() -> None:
    with pytest.raises(ScenarioError, match="give a mixture"):
        room(model("llama-3.1-8b"), NPU, 2)
