"""Words of tables: devices, precisions, recomputation, models, and the metric that is read."""

from __future__ import annotations

from typing import Any

import pytest

from poise.catalogue.models import model
from poise.cost.training.layout import ALTERNATE, CHEAP
from poise.validation.training.metrics import read_once
from poise.validation.training.shapes import model_of
from poise.validation.training.words import SilentError, device_of, noted, precision_of, recomputed, whole
from tests.validation.training.made import made


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("A100-40GB", "A100-SXM-40GB"), ("a100_40gb", "A100-SXM-40GB"), ("h100_80gb", "H100-SXM-80GB"),
        ("DGX-H100", "H100-SXM-80GB"), ("DGX-B300", "B300-SXM"), ("DGX B300", "B300-SXM"), ("GB300", "GB300"),
        ("DGX-GB300", "GB300"), ("NVIDIA H100-SXM5-80GB", "H100-SXM-80GB"), ("H100 (Eos)", "H100-SXM-80GB"),
        ("NVIDIA Blackwell GPU (B200-SXM-180GB)", "B200-SXM-180GB"), ("H200, 8/node, 400Gb/s", "H200-SXM-141GB"),
        ("NVIDIA Blackwell Ultra GPU (GB300)", "GB300"), ("AMD Instinct MI300X 192GB HBM3", "MI300X"),
        ("A100-SXM-80GB, 8/node, RoCE", "A100-SXM-80GB"), ("TPU7x (Ironwood)", "TPU-v7x"), ("TPU-v6e", "TPU-v6e"),
        ("H100-96GB HBM2e 500W, 8/node, 400Gb/s per GPU", "H100-SXM-96GB-HBM2e"),
    ],
)  # fmt: skip
def test_devices_are_found_by_the_names_that_tables_use(words: str, name: str) -> None:
    assert device_of(made(hardware=words)).name == name


@pytest.mark.parametrize(("words", "why"), [("", "hardware is not stated"), ("Abacus", "device 'Abacus' is not known")])
def test_other_devices_are_named(words: str, why: str) -> None:
    with pytest.raises(SilentError, match=why):
        device_of(made(hardware=words))


@pytest.mark.parametrize(
    ("words", "precision"),
    [
        ("BF16", "bf16"), ("amp_bf16", "bf16"), ("mixed fp16", "bf16"), ("FP8", "fp8"), ("FP8-CS", "fp8"),
        ("FP8-CS (FP8-MX)", "fp8"), ("FP8-MX", "mxfp8"), ("MXFP8", "mxfp8"), ("fp8 tensorwise", "fp8"),
        ("fp8 rowwise", "fp8_rows"), ("fp8 blockwise", "fp8_block"), ("NVFP4 (bf16 tail)", "nvfp4"),
    ],
)  # fmt: skip
def test_precisions(words: str, precision: str) -> None:
    assert precision_of(made(precision=words), narrow=True) == (precision, True)


def test_a_precision_that_is_not_stated_is_assumed() -> None:
    assert precision_of(made(precision=""), narrow=True) == ("fp8", False)
    assert precision_of(made(precision=""), narrow=False) == ("bf16", False)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", None), ("none stated", ("none", CHEAP)), ("full", ("full", CHEAP)), ("selective", ("selective", CHEAP)),
        ("norm, act, shared_expert", ("operations", ("norm", "activation", "shared"))),
        ("selective: layernorm, moe", ("operations", ("norm", "experts"))), ("none", ("none", CHEAP)),
        ("per-op SAC", ("operations", ALTERNATE)), ("norm, act", ("operations", ("norm", "activation"))),
    ],
)  # fmt: skip
def test_recomputation(words: str, found: Any) -> None:
    assert recomputed(made(recompute=words), torchtitan=False) == found


def test_torchtitan_selects_by_operation() -> None:
    assert recomputed(made(recompute="selective"), torchtitan=True) == ("operations", ALTERNATE)


def test_counts() -> None:
    assert whole(made(tp="4.0"), "tp") == 4
    assert whole(made(tp=""), "tp", 2) == 2
    with pytest.raises(SilentError, match="tp is not stated"):
        whole(made(tp=""), "tp")
    assert noted(made(notes="x; GA=16; y"), r"\bGA=(\d+)|accumulation (\d+)") == 16
    assert noted(made(notes="gradient accumulation 3"), r"\bGA=(\d+)|accumulation (\d+)") == 3


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("LLAMA3_70B", "meta-llama/Meta-Llama-3-70B"), ("Llama-2-70B LoRA", "meta-llama/Llama-2-70b-hf"),
        ("Qwen3_30B_a3B (tokendrop)", "Qwen/Qwen3-30B-A3B"), ("Qwen3 MoE 30B", "Qwen/Qwen3-30B-A3B"),
        ("Llama3 70B 2-node", "meta-llama/Meta-Llama-3-70B"), ("DeepSeekV3 (w/ MTP)", "deepseek-ai/DeepSeek-V3"),
    ],
)  # fmt: skip
def test_models_of_the_catalogue(words: str, name: str) -> None:
    assert model_of(made(model=words)) is model(name)


@pytest.mark.parametrize(
    ("words", "billions"),
    [
        ("GPT-3 175B", 175), ("GPT3-5B", 5), ("GPT3-20B", 20), ("Nemotron-8B", 8.5), ("Nemotron-15B", 15.6),
        ("Nemotron-22B", 22), ("Nemotron_3_Nano", 31.6), ("Mixtral-8x22B-G8T8", 141),
    ],
)  # fmt: skip
def test_models_of_papers_have_their_size(words: str, billions: float) -> None:
    found = model_of(made(model=words))
    assert found.parameters / 1e9 == pytest.approx(billions, rel=0.06)


def test_a_model_by_its_columns() -> None:
    row = made(model="mine", layers="4", hidden="512", heads="8", kv_heads="2", ffn="1536", vocab="1000")
    found = model_of(row)
    assert (found.layers, found.kv_heads, found.gated, found.tied) == (4, 2, True, False)
    with pytest.raises(SilentError, match="the shape of mine is not in the catalogue"):
        model_of(made(model="mine"))


def test_of_one_run_the_most_direct_metric_is_read() -> None:
    rows = [made(metric="MFU"), made(metric="throughput"), made(metric="peak_memory"), made(metric="bubble rate")]
    other = made(metric="MFU", n_gpus="16")
    kept = read_once([("", each) for each in (*rows, other)])
    assert [each["metric"] for _, each in kept] == ["throughput", "peak_memory", "MFU"]
