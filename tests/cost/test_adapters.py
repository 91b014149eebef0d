"""Bytes of adapters by hand, their times, and the room of their slots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.spec import Engine, Pool
from poise.cost.adapters import Adapters, products, rank_bytes, slot_bytes, whole_bytes
from poise.cost.memory import footprint, kv_blocks

LLAMA, H100 = model("llama-3.1-8b"), device("H100")
POOL = Pool(LLAMA, H100, engine=Engine(max_loras=4, max_lora_rank=16, lora_disk_bw=2e9))


def test_bytes_of_a_rank_of_llama_by_hand() -> None:
    """Queries 4096 to 4096, keys and values to 1024 each, output back, gate and up to 14336 each, down back."""
    values = 2 * 4096 + 2 * (4096 + 1024) + 2 * 4096 + 3 * (4096 + 14336)
    assert whole_bytes(LLAMA) == rank_bytes(POOL) == 2 * 32 * values
    assert 16 * whole_bytes(LLAMA) == pytest.approx(83.9e6, rel=0.001), "rank 16 of all linear layers is 84 MB"


def test_two_devices_share_what_vllm_cuts() -> None:
    """A whole and half of B where columns are cut, half of A and B whole where rows are."""
    columns = (4096 + 2048) + 2 * (4096 + 512) + 2 * (4096 + 7168)
    rows = (2048 + 4096) + (7168 + 4096)
    assert rank_bytes(replace(POOL, tensor=2)) == 2 * 32 * (columns + rows)
    assert rank_bytes(replace(POOL, pipeline=2)) == rank_bytes(POOL) / 2


@pytest.mark.parametrize("name", ["deepseek-v2-lite", "qwen3-30b-a3b", "llama-3.1-70b"])
def test_on_one_device_all_of_an_adapter_lies_there(name: str) -> None:
    pool = replace(POOL, model=model(name))
    assert rank_bytes(pool) == whole_bytes(pool.model) > 0
    assert whole_bytes(pool.model) / 2 < rank_bytes(replace(pool, tensor=2)) * 2


def test_times_are_bytes_over_bandwidths() -> None:
    made = Adapters(POOL, (8, 64))
    size = whole_bytes(LLAMA)
    assert made.load(0, True) == pytest.approx(8 * size / H100.host_bw * 1e12, abs=1)
    assert made.load(1, False) - made.load(1, True) == pytest.approx(64 * size / 2e9 * 1e12, abs=2)
    assert made.read(1) == pytest.approx(64 * size / H100.memory_bw * 1e12, abs=1)
    assert made.read(7) == pytest.approx(2 * made.read(0), abs=1), "one whose rank is unknown has 16"
    free = Adapters(replace(POOL, engine=Engine(max_loras=4)), (8,))
    assert free.load(0, False) == free.load(0, True)


def test_kernels_of_a_step_with_adapters() -> None:
    """Queries, keys and values are one product, gate and up another: two kernels beside each of four a layer."""
    assert Adapters(POOL).launch() == pytest.approx(2 * 4 * 32 * 10e-6 * 1e12)
    assert products(model("qwen3-30b-a3b")) == 2 * 48, "experts have no adapters"
    assert products(model("deepseek-v2-lite")) == 3 * 27 + 2 * 1
    measured_s = (23 - 15) / 3000  # vLLM 0.6, Llama-2-7B, with adapters enabled and without (issue 10898)
    assert Adapters(replace(POOL, model=model("llama-2-7b"))).launch() / 1e12 == pytest.approx(measured_s, rel=0.1)


def test_slots_take_room_from_the_kv_cache() -> None:
    without = replace(POOL, engine=Engine())
    taken = slot_bytes(POOL)
    assert taken == 4 * 16 * whole_bytes(LLAMA) and slot_bytes(without) == 0
    assert footprint(POOL).weights - footprint(without).weights == taken
    lost = (kv_blocks(without) - kv_blocks(POOL)) * footprint(POOL).block
    assert lost == pytest.approx(taken, abs=footprint(POOL).block)


def test_a_device_without_a_link_to_the_host_loads_no_adapters() -> None:
    with pytest.raises(ScenarioError, match="states no host_bw, so adapters cannot be loaded"):
        Adapters(replace(POOL, device=replace(H100, host_bw=0.0)))
