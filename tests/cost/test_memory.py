"""KV blocks fill memory and never more, grow with it, and what does not fit says what would."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from poise.core.errors import CapacityError
from poise.core.model import Model
from poise.core.spec import Engine, Pool
from poise.cost import kv_blocks
from poise.cost.memory import footprint

from .pools import DEEPSEEK_V3, GEMMA, H100, HYBRID, LLAMA_8B, LLAMA_70B, PCIE, REAL, pools


@pytest.mark.parametrize("model", REAL, ids=lambda model: model.name)
def test_one_device_holds_the_whole_model(model: Model) -> None:
    whole = model.weight_bytes(16)
    if model.tied:  # the head is the embedding
        assert model.embedding_parameters == model.vocab * model.hidden
    assert footprint(Pool(model, H100)).weights == pytest.approx(whole, rel=1e-9)


@given(pools())
@settings(deadline=None)
def test_devices_together_hold_at_least_the_model(pool: Pool) -> None:
    bits = {"bf16": 16, "fp8": 8, "int8": 8, "int4": 4.25, "fp4": 4.5}[pool.weights]
    assert footprint(pool).weights * pool.devices >= pool.model.weight_bytes(bits) * (1 - 1e-9)


@given(pools(), st.integers(10**8, 10**12), st.integers(0, 10**11))
@settings(deadline=None)
def test_more_memory_never_holds_less(pool: Pool, memory: int, more: int) -> None:
    small, large = (replace(pool, device=replace(pool.device, memory_bytes=size)) for size in (memory, memory + more))
    try:
        fewer = kv_blocks(small)
    except CapacityError:
        assume(False)
    assert isinstance(fewer, int)
    assert kv_blocks(large) >= fewer > 0


@given(pools(), st.integers(2 * 10**9, 10**11), st.data())
@settings(deadline=None)
def test_any_mix_of_requests_within_the_blocks_fits_the_device(pool: Pool, memory: int, data: st.DataObject) -> None:
    pool = replace(pool, device=replace(pool.device, memory_bytes=memory))
    need, engine, model = footprint(pool), pool.engine, pool.model
    assume(need.weights + need.workspace + need.block + need.window_block + need.state < 0.89 * memory)
    blocks = kv_blocks(pool) // pool.data
    free = memory * engine.memory_fraction - need.weights - need.workspace
    window = -(-model.window // engine.block_tokens)
    sequences = -(-engine.max_sequences // pool.data)
    cuts = sorted(data.draw(st.lists(st.integers(0, blocks), min_size=sequences - 1, max_size=sequences - 1)))
    lengths = [high - low for low, high in zip([0, *cuts], [*cuts, blocks], strict=True)]
    taken = sum(
        length * need.block + min(length, window) * need.window_block + need.state for length in lengths if length
    )
    assert taken <= free * (1 + 1e-9)


@given(pools(spread=False), st.integers(2 * 10**9, 10**11))
@settings(deadline=None)
def test_one_block_more_would_not_fit_where_all_layers_keep_everything(pool: Pool, memory: int) -> None:
    model = replace(pool.model, window=0, window_layers=0, linear_layers=0)
    pool = replace(pool, model=model, device=replace(pool.device, memory_bytes=memory))
    need = footprint(pool)
    free = memory * pool.engine.memory_fraction - need.weights - need.workspace
    assume(free > need.block)
    blocks = kv_blocks(pool)
    assert blocks * need.block <= free * (1 + 1e-12)
    assert (blocks + 1) * need.block > free * (1 - 1e-12)


def test_workspace_grows_with_what_a_step_computes() -> None:
    def workspace(model: Model, **engine: int) -> int:
        return footprint(Pool(model, H100, engine=Engine(**engine))).workspace  # type: ignore[arg-type]

    assert workspace(LLAMA_8B, token_budget=4096) < workspace(LLAMA_8B, token_budget=8192)
    assert workspace(LLAMA_8B, max_sequences=64) < workspace(LLAMA_8B, max_sequences=256)
    routed = replace(
        LLAMA_8B, moe=DEEPSEEK_V3.moe
    )  # eight experts a token move more than one block of their summed width
    assert workspace(LLAMA_8B) < workspace(routed)


def test_stated_blocks_are_taken_as_they_are() -> None:
    assert kv_blocks(Pool(LLAMA_70B, H100, engine=Engine(kv_blocks=123))) == 123


@pytest.mark.parametrize("model", (GEMMA, HYBRID), ids=lambda model: model.name)
def test_longer_requests_get_more_out_of_windows_and_states(model: Model) -> None:
    pool = Pool(model, H100, tensor=4)
    held = [kv_blocks(pool, length) for length in (16, 256, 4096, 65536)]
    assert held == sorted(held)
    assert held[-1] > kv_blocks(pool)


@given(pools(spread=False), st.integers(2 * 10**9, 10**11), st.integers(1, 5000))
@settings(deadline=None)
def test_requests_of_a_stated_length_fill_the_device(pool: Pool, memory: int, length: int) -> None:
    pool = replace(pool, device=replace(pool.device, memory_bytes=memory))
    need, size = footprint(pool), pool.engine.block_tokens
    long = -(-length // size)
    one = long * need.block + min(long, -(-pool.model.window // size)) * need.window_block + need.state
    free = memory * pool.engine.memory_fraction - need.weights - need.workspace
    assume(free > one / long)
    held = kv_blocks(pool, length)
    assert held / long * one <= free * (1 + 1e-9) < (held + 1) / long * one * (1 + 2e-9)


@pytest.mark.parametrize(
    "pool",
    [
        Pool(LLAMA_70B, H100),
        Pool(LLAMA_70B, H100, weights="fp8", engine=Engine(memory_fraction=0.5)),
        Pool(DEEPSEEK_V3, H100, tensor=8, weights="fp8"),
        Pool(LLAMA_70B, PCIE, tensor=2, pipeline=2),
    ],
    ids=("weights", "fraction", "latents", "stages"),
)
def test_what_an_error_suggests_fits_and_nothing_smaller_does(pool: Pool) -> None:
    with pytest.raises(CapacityError) as caught:
        kv_blocks(pool)
    message = str(caught.value)
    assert "\n" not in message
    tensor = re.search(r"what fits: tensor (\d+)", message)
    assert tensor
    assert kv_blocks(replace(pool, tensor=int(tensor[1]))) > 0
    with pytest.raises(CapacityError):
        kv_blocks(replace(pool, tensor=int(tensor[1]) // 2))
    size = re.search(r"a device of ([\d.]+) GB", message)
    assert size
    enough = round(float(size[1]) * 1e9)
    assert kv_blocks(replace(pool, device=replace(pool.device, memory_bytes=enough))) > 0
    with pytest.raises(CapacityError):
        kv_blocks(replace(pool, device=replace(pool.device, memory_bytes=enough - 200_000_000)))


def test_fp8_weights_are_suggested_where_they_fit() -> None:
    with pytest.raises(CapacityError, match="or fp8 weights, or"):
        kv_blocks(Pool(LLAMA_70B, H100))
    assert kv_blocks(Pool(LLAMA_70B, H100, weights="fp8")) > 0


def test_the_run_from_which_the_context_bytes_come(data_dir: Path) -> None:
    run = json.loads((data_dir / "vllm_end_to_end/rtx4090__llama-3.1-8b/meta.json").read_text())
    device = replace(PCIE, memory_bytes=run["hardware"]["device_total_memory_bytes"])
    arguments = run["engine_kwargs"]
    engine = Engine(token_budget=arguments["max_num_batched_tokens"], max_sequences=arguments["max_num_seqs"])
    assert kv_blocks(Pool(LLAMA_8B, device, engine=engine)) == pytest.approx(
        run["kv_cache"]["num_gpu_blocks"], rel=0.02
    )
