"""From a row's words to pools: layouts, formats, limits, and what had to be assumed."""

from __future__ import annotations

import pytest

from poise.validation.condition import Condition, NotCoveredError, read_condition
from tests.validation.made import row


def _of(**changes: object) -> Condition:
    return read_condition(row(**changes)).condition


def test_devices_beyond_one_layout_are_replicas() -> None:
    (pool,) = _of(devices=8, tensor=2).pools
    assert (pool.tensor, pool.replicas, pool.devices) == (2, 4, 2)


def test_a_tensor_degree_may_count_halves_of_a_chip() -> None:
    row_of = {"devices": 4, "tensor": 8, "device": "TPU7x"}
    halves = read_condition(row(notes="4 Ironwood chips (two devices a chip)", **row_of))
    (pool,) = halves.condition.pools
    assert (pool.tensor, pool.replicas, halves.condition.devices) == (4, 1, 4)
    assert "tensor degree 8 counts halves of a chip: 4" in halves.assumed


def test_data_ranks_may_be_counted_inside_the_tensor_group() -> None:
    (pool,) = _of(model="DeepSeek-R1", precision="fp8", devices=8, tensor=8, data=8, expert=8).pools
    assert (pool.tensor, pool.data, pool.expert, pool.replicas) == (1, 8, 8, 1)
    (pool,) = _of(model="DeepSeek-R1", precision="fp8", devices=8, tensor=1, data=8, expert=8).pools
    assert (pool.tensor, pool.data, pool.expert) == (1, 8, 8)


def test_each_data_rank_has_the_budget_for_itself() -> None:
    one, eight = (_of(model="DeepSeek-R1", devices=n, tensor=1, data=n).pools[0].engine for n in (1, 8))
    assert eight.token_budget == 8 * one.token_budget


@pytest.mark.parametrize(("engine", "ranks"), [("vLLM", 8), ("TensorRT-LLM", 8), ("SGLang", 1)])
def test_a_budget_is_a_data_rank_s_or_shared_as_the_engine_has_it(engine: str, ranks: int) -> None:
    changes = {"model": "DeepSeek-R1", "engine": engine, "load": "concurrency=8", "prompt": 100.0}
    one, eight = (_of(devices=n, tensor=1, data=n, **changes).pools[0].engine for n in (1, 8))
    assert eight.token_budget == ranks * one.token_budget
    assert (one.rank_budget, eight.rank_budget) == (0, eight.token_budget // 8)


@pytest.mark.parametrize(
    ("notes", "laid"),
    [
        ("", (8, 1)),
        ("attention_dp not stated, taken as 1", (8, 1)),
        ("MoE run with attention data parallel enabled, EP degree not stated", (1, 8)),
        ("tuned; attention DP", (1, 8)),
        ("server: --tp 8 --dp 4 --enable-dp-attention", (2, 4)),
        ("server: --tp 8 --dp 3 --enable-dp-attention", (1, 8)),
        ("server: --tp 8 --dp 4", (8, 1)),
        ("DEP8", (1, 8)),
        ("without attention data parallelism", (8, 1)),
    ],
)
def test_attention_s_data_ranks_are_read_from_notes(notes: str, laid: tuple[int, int]) -> None:
    (pool,) = _of(model="DeepSeek-R1", precision="fp8", devices=8, tensor=8, notes=notes).pools
    assert (pool.tensor, pool.data) == laid


def test_experts_that_cannot_be_cut_evenly_are_spread() -> None:
    (pool,) = _of(model="DeepSeek-R1", precision="fp8", devices=72, tensor=72, expert=1).pools
    assert (pool.tensor, pool.data, pool.expert) == (1, 72, 72)
    (pool,) = _of(model="DeepSeek-R1", precision="fp8", devices=64, tensor=64, expert=1).pools
    assert (pool.tensor, pool.expert) == (64, 1)


def test_experts_of_a_dense_model_are_passed_over() -> None:
    assert _of(expert=4).pools[0].expert == 1


@pytest.mark.parametrize(("model", "tensor", "laid"), [("DeepSeek-R1", 48, (1, 48)), ("DeepSeek-R1", 16, (16, 1)),
    ("DeepSeek-R1", 8, (8, 1)), ("Llama-3.1-70B", 16, (16, 1)), ("Qwen2.5-7B", 8, (1, 8))])  # fmt: skip
def test_degrees_that_cannot_cut_attention_are_data_ranks(model: str, tensor: int, laid: tuple[int, int]) -> None:
    (pool,) = _of(model=model, devices=tensor, tensor=tensor).pools
    assert (pool.tensor, pool.data) == laid


def test_a_layout_that_cannot_hold_the_model_is_widened_until_it_does() -> None:
    notes = "prefill workers=? x (tp1,dp1); decode workers=? x (tp1,dp1)"
    changes = {"model": "Llama-3.1-70B", "disagg": True, "devices": 0, "load": "concurrency=8", "notes": notes}
    reading = read_condition(row(**changes))
    assert [pool.tensor for pool in reading.condition.pools] == [2, 2]
    assert sum("cannot hold the model" in note for note in reading.assumed) == 2


def test_llama_cpp_gives_devices_layers_in_turn() -> None:
    reading = read_condition(row(engine="llama.cpp", devices=4, tensor=4))
    (pool,) = reading.condition.pools
    assert (pool.tensor, pool.pipeline) == (1, 4)
    assert any("splits layers" in note for note in reading.assumed)


def test_formats_are_found_by_their_variants() -> None:
    for words, weights, kv in (("nvfp4/fp8", "fp4", "fp8"), ("int4/not stated", "int4", "bf16"), ("", "bf16", "bf16")):
        (pool,) = _of(precision=words).pools
        assert (pool.weights, pool.kv) == (weights, kv)


def test_a_format_in_the_notes_fills_a_silent_column() -> None:
    assert _of(precision="nan/not stated", notes="gemm=fp8 moe=fp8_block").pools[0].weights == "fp8"


@pytest.mark.parametrize(
    ("model", "precision", "source", "weights"),
    [
        ("nvidia/DeepSeek-R1-0528-FP4-v2", "", "elsewhere", "fp4"),
        ("deepseek-ai/DeepSeek-R1-0528", "not stated", "elsewhere", "fp8"),
        ("deepseek-ai/DeepSeek-R1-0528", "none", "mlperf_inference_v9", "fp8"),
        ("Qwen3-32B-FP8", "bf16", "elsewhere", "bf16"),
        ("Qwen3-32B-AWQ", "auto", "elsewhere", "int4"),
        ("Qwen3-32B", "auto", "elsewhere", "bf16"),
    ],
)
def test_a_silent_format_is_the_name_s_then_the_published_one(
    model: str, precision: str, source: str, weights: str
) -> None:
    assert _of(model=model, precision=precision, source=source, devices=8, tensor=8).pools[0].weights == weights


def test_a_device_s_name_may_say_how_many_there_are() -> None:
    (pool,) = _of(device="8x H100", devices=0, tensor=0, model="Llama-3.1-70B").pools
    assert (pool.device.name, pool.tensor) == ("H100-SXM-80GB", 8)


def test_what_is_not_known_is_named() -> None:
    with pytest.raises(NotCoveredError, match=r"device H100 \(96GB\) is not in the catalogue"):
        _of(device="H100 (96GB)")
    with pytest.raises(NotCoveredError, match=r"model org/Llama-3.1-9B-FP8 is not in the catalogue"):
        _of(model="org/Llama-3.1-9B-FP8")


def test_lengths_beyond_the_model_s_are_noted() -> None:
    note = read_condition(row(model="Llama-3-8B", prompt=8000.0, output=193.0)).assumed
    assert any("8,193 tokens, beyond the 8,192" in each for each in note)
    assert not any("beyond" in each for each in read_condition(row(model="Llama-3.1-8B", prompt=8000.0)).assumed)


def test_limits_in_the_notes_are_the_engine_s() -> None:
    notes = "max_num_batched_tokens=2048; KV blocks=7463; max_num_seqs=128"
    engine = _of(load="qps=2", notes=notes).pools[0].engine
    assert (engine.token_budget, engine.kv_blocks, engine.max_sequences) == (2048, 7463, 128)


def test_two_sides_come_from_the_notes() -> None:
    notes = "prefill workers=7 x (tp1,dp4,moe_tp1,ep4); decode workers=2 x (tp1,dp8,moe_tp1,ep8); gemm=nvfp4"
    condition = _of(
        model="DeepSeek-R1/V3", disagg=True, devices=44, load="concurrency=64", notes=notes, precision="fp4/not stated"
    )
    prefill, decode = condition.pools
    assert (prefill.role, prefill.replicas, prefill.data) == ("prefill", 7, 4)
    assert (decode.role, decode.replicas, decode.data, decode.expert) == ("decode", 2, 8, 8)
    assert condition.devices == 44


def test_a_number_of_workers_that_is_not_stated_is_an_assumption() -> None:
    notes = "prefill workers=? x (tp8,dp1,moe_tp1,ep8); decode workers=? x (tp8,dp1,moe_tp1,ep8)"
    reading = read_condition(row(model="DeepSeek-R1", disagg=True, devices=0, load="concurrency=64", notes=notes))
    assert sum("their number is not stated" in note for note in reading.assumed) == 2


def test_a_loose_device_is_taken_for_one_and_says_so() -> None:
    reading = read_condition(row(device="H100 (variant not stated)"))
    assert reading.condition.pools[0].device.name == "H100-SXM-80GB"
    assert any("H100-SXM-80GB" in note for note in reading.assumed)


def test_a_full_statement_assumes_nothing() -> None:
    assert read_condition(row()).assumed == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "Abacus-9000"}, "device Abacus-9000"),
        ({"model": "Parrot-3B"}, "model Parrot-3B"),
        ({"load": ""}, "load is not stated"),
        ({"load": "qps=2", "prompt": 0.0, "model": "Qwen3-8B"}, "lengths"),
        ({"output": 0.0, "model": "Qwen3-8B"}, "lengths"),
        ({"precision": "fp6"}, "precision 'fp6'"),
        ({"disagg": True}, "layouts are not stated"),
    ],
)
def test_what_cannot_be_answered_says_why(change: dict[str, object], message: str) -> None:
    with pytest.raises(NotCoveredError, match=message) as caught:
        read_condition(row(**change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "layout"),
    [
        ("Hybrid TP = 2 and PP = 2", (2, 2, 1)),
        ("Hybird Tensor (2) and Pipeline (2) Parallelism", (2, 2, 1)),
        ("PP", (1, 4, 1)),
        ("TP", (4, 1, 1)),
        ("EP", (4, 1, 4)),
        ("Hybrid TP = 2 and EP = 2", (4, 1, 2)),
    ],
)
def test_a_layout_in_words_fills_silent_columns(words: str, layout: tuple[int, int, int]) -> None:
    stated = row(
        model="Mixtral-8x7B", tensor=0, pipeline=0, expert=0, devices=4, notes=f"parallelism type: {words}; latency 9 s"
    )
    (pool,) = read_condition(stated).condition.pools
    assert (pool.tensor, pool.pipeline, pool.expert) == layout


def test_a_cold_first_wave_is_simulated_where_the_notes_state_it() -> None:
    for notes, seconds in (("cold_s=1.5; measured 2025-11-02", 1.5), ("measured 2025-11-02", 0.0)):
        (pool,) = read_condition(row(model="Qwen3-8B", notes=notes)).condition.pools
        assert pool.engine.cold_s == seconds


@pytest.mark.parametrize(("source", "devices", "pcie"), [("llmservingsim_x", 2, "host"), ("x", 2, "direct")])
def test_a_source_says_how_its_cards_reach_one_another(source: str, devices: int, pcie: str) -> None:
    read = read_condition(row(source=source, model="Qwen3-8B", device="RTX-PRO-6000", devices=devices, tensor=devices))
    assert read.condition.pools[0].device.pcie == pcie
    assert any("16 GB/s" in line for line in read.assumed) == (pcie == "host")


def test_a_format_that_no_checkpoint_has_is_the_published_one_with_the_source_s_kv() -> None:
    changes = {"model": "gpt-oss-120b", "precision": "fp8/not stated", "engine": "TensorRT-LLM", "version": "1.0"}
    (pool,) = _of(source="trtllm_perf_overview_2026", **changes).pools
    assert (pool.weights, pool.kv) == ("fp4", "bf16")
    (pool,) = _of(**changes).pools
    assert (pool.weights, pool.kv) == ("fp4", "fp8")
