"""Where states of recurrent layers are saved, by engine, and that simulations find prefixes there alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.catalogue.devices import device
from poise.catalogue.models import model
from poise.core.spec import Engine, Pool
from poise.cost.layout import kv_bytes_per_layer
from poise.cost.states import page_tokens, state_blocks

H100 = device("H100")


def pool(name: str, engine: str = "vllm", tensor: int = 1) -> Pool:
    return Pool(model(name), H100, tensor=tensor, engine=Engine(name=engine))


def test_models_without_recurrent_layers_reuse_any_block() -> None:
    assert state_blocks(pool("llama-3.1-8b")) == 1


@pytest.mark.parametrize("name", ["qwen3-next", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "Kimi-Linear-48B-A3B-Instruct"])
@pytest.mark.parametrize("tensor", [1, 2])
def test_a_block_of_vllm_is_the_least_whose_page_holds_a_state(name: str, tensor: int) -> None:
    given = pool(name, tensor=tensor)
    tokens, step = page_tokens(given), 128 if given.model.mla else 16
    (_, state), *_ = given.model.linears()
    page = max(kv_bytes_per_layer(given, each) for _, each in given.model.attentions())
    assert tokens % step == 0
    assert (tokens - step) * page < state.state_bytes / tensor <= tokens * page
    assert state_blocks(given) * 16 == tokens


def test_states_in_16_bits_give_the_block_that_vllm_prints() -> None:
    """vLLM sets blocks of 544 tokens for Qwen3-Next with a 16-bit state: 2 × 32 × 128 × 128 + 6 × 8192 bytes."""
    state = 2 * 32 * 128 * 128 + 2 * 3 * 8192
    token = kv_bytes_per_layer(pool("qwen3-next"), pool("qwen3-next").model.attentions()[0][1])
    assert 16 * -(-state // (16 * token)) == 544


def test_sglang_tracks_each_256_tokens_and_tensorrt_llm_reuses_nothing() -> None:
    assert state_blocks(pool("qwen3-next", "sglang")) == 16
    whole = pool("qwen3-next", "sglang")
    assert state_blocks(replace(whole, engine=Engine(name="sglang", block_tokens=1))) == 256
    assert state_blocks(pool("qwen3-next", "tensorrt-llm")) == 0
