"""Loose names of devices, models, formats, scenarios and engines."""

from __future__ import annotations

import pytest

from poise.catalogue import device, model
from poise.catalogue.engines import engine_defaults
from poise.catalogue.spelling import format_spelled
from poise.core.errors import UserError
from poise.core.spec import Format
from poise.validation.assumptions import (
    LEVELS,
    era_of,
    held_format,
    meant_metric,
    named_device,
    named_format,
    named_model,
    narrowest,
    scenario_of,
    source_kv,
)


@pytest.mark.parametrize(
    ("name", "found", "assumed"),
    [
        ("H100-SXM-80GB", "H100-SXM-80GB", False),
        ("NVIDIA GeForce RTX 4090", "RTX-4090", False),
        ("H100 (variant not stated)", "H100-SXM-80GB", True),
        ("A100 (memory size not stated)", "A100-SXM-40GB", True),
        ("L40S (PCIe form)", "L40S", True),
    ],
)
def test_devices(name: str, found: str, assumed: bool) -> None:
    taken, note = named_device(name)
    assert (taken.name, bool(note)) == (found, assumed)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("llama2-70b-99.9", "meta-llama/Llama-2-70b-hf"),
        ("llama3_1-70b-fp8_trtllm", "meta-llama/Llama-3.1-70B"),
        ("llama2-70b-fp8_quark", "meta-llama/Llama-2-70b-hf"),
        ("DeepSeek-R1/V3", "deepseek-ai/DeepSeek-R1"),
        ("Llama-7B", "huggyllama/llama-7b"),
        ("Llama-70B", "meta-llama/Llama-2-70b-hf"),
        ("llama-v2-13b", "meta-llama/Llama-2-13b-hf"),
        ("Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B"),
        ("Mixtral-8x7B", "mistralai/Mixtral-8x7B-v0.1"),
    ],
)
def test_models(name: str, found: str) -> None:
    assert named_model(name).name == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("nvfp4", "fp4"), ("MXFP4", "fp4"), ("fp8_block", "fp8"), ("FP8", "fp8"), ("w8a8", "int8"), ("UINT4", "int4"),
        ("int4_wo", "int4"), ("fp16", "bf16"), ("bf16 mixed", "bf16"),
    ],
)  # fmt: skip
def test_formats(name: str, found: str) -> None:
    assert named_format(name) == (found, "")


def test_a_silent_format_is_an_assumption_and_a_strange_one_an_error() -> None:
    for name in ("", "not stated", "nan", "UNSET"):
        found, note = named_format(name)
        assert found == "bf16"
        assert note
    with pytest.raises(UserError, match="fp6"):
        named_format("fp6")


def test_submitters_take_the_narrowest_native_format() -> None:
    assert [narrowest(device(name))[0] for name in ("A100", "H100", "B200")] == ["bf16", "fp8", "fp4"]


def test_scenarios_go_by_shape() -> None:
    found = scenario_of(model("llama-3.3-70b"))
    assert found is not None
    assert found.name == "OpenOrca"
    assert scenario_of(model("mistral-7b")) is None
    assert scenario_of(model("llama-2-7b")) is None


@pytest.mark.parametrize(
    ("name", "found"),
    [("llama3_1-70b-fp8_dyn", "fp8"), ("llama2-70b-fp8_quark", "fp8"), ("x-NVFP4", "nvfp4"), ("llama2-70b-99.9", "")],
)
def test_a_format_in_a_name_is_found(name: str, found: str) -> None:
    assert format_spelled(name) == found


def test_the_quantiles_of_a_set_have_its_mean() -> None:
    spread = 0
    for name in ("llama-2-70b", "llama-3.1-8b", "mixtral-8x7b", "llama-3.1-405b", "deepseek-r1"):
        found = scenario_of(model(name))
        assert found is not None
        spread += bool(found.outputs)
        assert len(found.prompts) == len(LEVELS)
        assert list(found.prompts) == sorted(found.prompts)
        assert trapezoid(found.prompts) == pytest.approx(found.prompt, rel=0.03)
    assert spread == 4


def trapezoid(quantiles: tuple[float, ...]) -> float:
    """The mean of lengths that are even between quantiles."""
    steps = zip(LEVELS, LEVELS[1:], quantiles, quantiles[1:], strict=False)
    return sum((high - low) * (one + other) / 200 for low, high, one, other in steps)


def test_a_benchmark_names_the_library_beneath_its_engine() -> None:
    for stated, meant in (("TensorRT 9.3.0, CUDA 12.2", "0.11"), ("TensorRT 10.11, CUDA 12.9", "1.0")):
        assert era_of("mlperf_inference_v5.1", "TensorRT-LLM", stated, "")[0] == meant
    assert era_of("mlperf_inference_v5.1", "vLLM", "vLLM v0.6.5", "")[0] == "0.8"
    assert era_of("other", "TensorRT-LLM", "TensorRT 10.2", "") == ("TensorRT 10.2", "")


def test_a_metric_of_another_unit_is_named() -> None:
    taken, note = meant_metric("mlperf_inference_v5.1", "request_throughput", "Interactive")
    assert taken == "output_throughput"
    assert "tokens" in note
    assert meant_metric("mlperf_inference_v4.1", "request_throughput", "Server") == ("request_throughput", "")


def test_engines_go_by_version() -> None:
    old, new = engine_defaults("vLLM", "v0.5.2"), engine_defaults("vllm", "vLLM 0.10.0, RHEL 9.6")
    assert (old.prefill_first, new.prefill_first) == (True, False)
    assert engine_defaults("vLLM") == engine_defaults("vLLM", "0.19") != new
    assert engine_defaults("TensorRT-LLM + Triton backend", "0.14.0").front_s < engine_defaults("trtllm", "1.1").front_s
    strange = engine_defaults("abacus")
    new = engine_defaults("vLLM")
    assert (strange.name, strange.known, strange.token_budget) == ("abacus", False, new.token_budget)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Dynamo (SGLang)", "SGLang"),
        ("dynamo-trtllm", "TensorRT-LLM"),
        ("Dynamo (TensorRT-LLM)", "TensorRT-LLM"),
        ("llm-d vLLM", "vLLM"),
        ("Ollama", "Ollama"),
        ("exllama", "exllama"),
    ],
)
def test_an_engine_beneath_another_is_found_by_its_word(name: str, found: str) -> None:
    assert engine_defaults(name).name == found


def test_stated_limits_replace_defaults() -> None:
    engine = engine_defaults("sglang").engine("0.5.9", token_budget=512)
    assert (engine.name, engine.version, engine.token_budget, engine.memory_fraction) == ("SGLang", "0.5.9", 512, 0.88)


def test_eras() -> None:
    assert era_of("llm_inference_bench", "vLLM", "", "")[0] == "0.5"
    assert era_of("elsewhere", "vLLM", "", "") == ("", "")
    assert era_of("aic", "TensorRT-LLM", "0.8.1.post2", "measured 2025-12-21")[0] == "1.0"
    assert era_of("mlperf_inference_v4.1", "vLLM", "vLLM 0.4.3+rocm614", "")[0] == "0.8"
    assert era_of("docs", "TensorRT-LLM", "0.9.0", "static batching") == ("0.9.0", "")


@pytest.mark.parametrize(
    ("name", "stated", "held"),
    [
        ("gpt-oss-120b", "fp8", "fp4"),
        ("gpt-oss-120b", "bf16", "fp4"),
        ("gpt-oss-120b", "fp4", "fp4"),
        ("Kimi-K2.5", "bf16", "int4"),
        ("Kimi-K2.5", "fp4", "fp4"),
        ("DeepSeek-R1", "bf16", "bf16"),
        ("Llama-3.1-8B", "fp8", "fp8"),
    ],
)
def test_a_model_published_in_four_bits_alone_is_not_widened(name: str, stated: Format, held: Format) -> None:
    found, note = held_format(named_model(name), name, stated)
    assert (found, bool(note)) == (held, held != stated)


def test_a_source_may_state_kv_values_in_its_own_options() -> None:
    source = "trtllm_perf_overview_2026"
    assert source_kv(source, "gpt-oss-120b", device("H100"))[0] == "bf16"
    assert source_kv(source, "gpt-oss-120b", device("B200")) == (None, "")
    assert source_kv(source, "Llama-3.3-70B", device("H100")) == (None, "")
    assert source_kv("another", "gpt-oss-120b", device("H100")) == (None, "")
