"""Spellings of models and devices as published tables have them: found, with their format, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue import device, devices, model, models
from poise.catalogue.models import published_format
from poise.catalogue.spelling import counted, format_spelled
from poise.core.errors import UserError
from poise.validation.assumptions import named_device, named_format, named_model
from tests.depth import examples

MODELS = {
    "meta-llama/Llama-3.1-8B": """Llama 3.1 8B Instruct FP8 | meta-llama_Llama-3.1-8B | llama3.1:8b |
        Llama-3.1-8B (FP8) |
        RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16 | models--meta-llama--Llama-3.1-8B-Instruct |
        unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit | Llama-3.1-8B-Instruct-Q4_K_M.gguf | llama3.1-8b-edge |
        mlx-community/Llama-3.1-8B-4bit | DeepSeek-R1-Distill-Llama-8B | meta/llama-3.1-8b-instruct |
    Llama-3.1-8B@main |
        amd/Llama-3.1-8B-Instruct-FP8-KV | Llama-3.1-8B, FP8 | /mnt/nvme/hub/Llama-3.1-8B-Instruct/ | llama_3_1_8b""",
    "meta-llama/Meta-Llama-3-8B": "Llama-3-8B-Instruct | meta-llama/Meta-Llama-3-8B | llama3_8b | LLaMA 3 8B",
    "meta-llama/Llama-3.1-70B": "neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8 | llama3_1-70b-fp8_trtllm",
    "meta-llama/Llama-3.1-405B": """hugging-quants/Meta-Llama-3.1-405B-Instruct-AWQ-INT4 | mlperf-llama3.1-405b |
        nvidia/Llama-3.1-405B-Instruct-NVFP4""",
    "meta-llama/Llama-3.3-70B-Instruct": """amd/Llama-3.3-70B-Instruct-MXFP4 | nvidia/Llama-3.3-70B-Instruct-FP4 |
        RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic""",
    "meta-llama/Llama-2-70b-hf": """llama2-70b-99.9 | TheBloke/Llama-2-70B-Chat-AWQ | Llama-2 70B | llama-v2-70b |
        llama-70b""",
    "meta-llama/Llama-2-7b-hf": "lmsys/vicuna-7b-v1.5 | LLaMA2-7B | Llama-2-7b-chat",
    "huggyllama/llama-7b": "/models/llama-7b-hf | LLaMA-7B",
    "deepseek-ai/DeepSeek-R1": """nvidia/DeepSeek-R1-0528-FP4-v2 | DeepSeek R1 0528 | deepseek-r1-fp4 |
        DeepSeek-R1-671B |
        amd/DeepSeek-R1-0528-MXFP4 | dsr1""",
    "deepseek-ai/DeepSeek-V3": "deepseek-ai/DeepSeek-V3-0324 | DeepSeek-V3.1-Terminus | nvidia/DeepSeek-V3.1-NVFP4",
    "mistralai/Mixtral-8x22B-v0.1": """mistralai/Mixtral-8x22B-Instruct-v0.1 | Mixtral-8x22B-Instruct-v0.1 |
        Mixtral 8x22B""",
    "openai/gpt-oss-120b": "amd/gpt-oss-120b-w-mxfp4-a-fp8 | gptoss120b | openai/gpt-oss-120b | gpt_oss_120b-MXFP4",
    "Qwen/Qwen2.5-72B": "Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4 | Qwen2.5-72B-Instruct-AWQ | Qwen2.5-VL-72B-Instruct",
    "Qwen/Qwen2.5-32B": "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B | Qwen2.5-Coder-32B-Instruct",
    "Qwen/Qwen3-32B": "Qwen/Qwen3-32B-FP8 | nvidia/Qwen3-32B-NVFP4 | qwen3_32b",
    "Qwen/Qwen3-0.6B": "Qwen3-0.6B | qwen3_0_6b | Qwen3 0.6 B",
    "Qwen/Qwen3-235B-A22B": "Qwen3-235B-A22B-FP8 | nvidia/Qwen3-235B-A22B-FP4",
    "Qwen/Qwen3-235B-A22B-Instruct-2507": """Qwen/Qwen3-235B-A22B-Thinking-2507-FP8 | Qwen3-VL-235B-A22B-Thinking |
        nvidia/Qwen3-235B-A22B-Instruct-2507-NVFP4""",
    "Qwen/Qwen3.5-397B-A17B": "nvidia/Qwen3.5-397B-A17B-NVFP4 | Qwen3.5-397B-A17B-FP8",
    "facebook/opt-1.3b": "OPT-1.3B | OPT 1.3 B",
    "facebook/opt-13b": "OPT-13B",
    "moonshotai/Kimi-K2-Instruct": "nvidia/Kimi-K2.5-NVFP4 | Kimi-K2-Thinking | moonshotai/Kimi-K2-Instruct-0905",
    "MiniMaxAI/MiniMax-M2.5": "MiniMaxAI/MiniMax-M2 | minimaxm2.5",
    "zai-org/GLM-4.5": "zai-org/GLM-4.6-FP8",
    "mistralai/Mistral-7B-Instruct-v0.2": "Mistral-7B-Instruct-v0.2 | TheBloke/Mistral-7B-Instruct-v0.2-GPTQ",
    "mistralai/Mixtral-8x7B-v0.1": """mixtral-8x7b-99 | Mixtral-8x7B-Instruct-v0.1 |
        nvidia/Mixtral-8x7B-Instruct-v0.1-FP8""",
    "EleutherAI/gpt-j-6b": "gptj-99.9 | gpt-j-6b",
}

OTHERS = [
    "Llama-3.1-9B",
    "Llama3-8B-1048k",
    "llama",
    "LLaMA",
    "Qwen",
    "70B",
    "Llama-3",
    "OPT-6.6B",
    "llama-6.5b",
    "Yi-3.4B |\n    Mistral-Small-2407",
    "Qwen2.5-14B-Instruct-1M",
    "FP8",
    "instruct",
    "/models/ |\n    Llama-3.1-8B-Instruct-EAGLE3",
    "Llama-3.1-Minitron-4B",
    "Step-3",
    "|\n    Nemotron-H-8B",
    "granite-4.0-h-small",
    "gemma-3-270m",
    "Llama-3.2-11B-Vision",
    "Meta-Llama-3.1",
]
"""Models of another shape, or of none that the catalogue knows."""

DEVICES = {
    "H100-SXM-80GB": """NVIDIA H100 80GB HBM3 | h100_sxm | H100-SXM5-80GB | H100 80GB SXM | HGX H100 | DGX-H100 |
        H100 (SXM5) |
        8xH100 | H100 x8 | 8x H100 SXM | H100 (8x) | NVIDIA H100 SXM5 (80 GB)""",
    "H100-PCIe-80GB": "NVIDIA H100 PCIe | H100 (PCIe) | H100-80GB-PCIe | h100 pcie 80gb",
    "H100-NVL": "NVIDIA H100 NVL | H100 NVL 94GB",
    "H200-SXM-141GB": "NVIDIA H200 | H200-SXM5-141GB | NVIDIA H200 141GB HBM3e",
    "H200-NVL": "NVIDIA H200 NVL",
    "A100-SXM-80GB": "NVIDIA A100-SXM4-80GB | A100 (80GB) | A100-80G | 4x A100-80GB | a100_sxm",
    "A100-SXM-40GB": "NVIDIA A100-SXM4-40GB | A100 (40GB) | A100 40G",
    "A100-PCIe-80GB": "NVIDIA A100 80GB PCIe | NVIDIA-A100-80GB-PCIe | a100_pcie",
    "A100-PCIe-40GB": "NVIDIA A100-PCIE-40GB",
    "B200-SXM-180GB": "NVIDIA B200 | B200 (180GB) | B200-SXM-192GB | HGX B200 | b200_sxm | B200 NVL8",
    "B300-SXM": "NVIDIA B300 SXM6 AC | B300 288GB",
    "GB200": "gb200_nvl72 | NVIDIA GB200 | GB200 NVL72",
    "GB300": "gb300-nvl72",
    "GH200-96GB": "NVIDIA GH200 480GB | GH200 96GB HBM3",
    "GH200-144GB": "GH200 144G HBM3e",
    "MI300X": "MI300X-OAM | AMD Instinct MI300X OAM | AMD_Instinct_MI300X_OAM | MI300X 192GB",
    "MI355X": "AMD Instinct MI355X",
    "RTX-4090": "NVIDIA GeForce RTX 4090 | RTX 4090 24GB | rtx4090",
    "A10G": "a10g | NVIDIA A10G | A10G-24GB",
    "L40S": "L40S PCIe | L40S (PCIe form) | NVIDIA L40S 48GB | 2xL40S",
    "V100-SXM2-16GB": "Tesla V100-SXM2-16GB",
    "TPU-v6e": "TPU v6e | Google TPU v6e",
}

STRANGERS = [
    "H100 (96GB)",
    "H100 94GB",
    "H200 80GB",
    "H100 SXM PCIe",
    "H100 SXM 40GB",
    "A100 (PCIe, SXM4)",
    "GB200 NVL4",
    "RTX 4090 D |\n    RTX 3090 Ti",
    "MI300A",
    "MI308X",
    "H20 141GB",
    "H20-3e",
    "H800 PCIe",
    "V100 PCIe",
    "L40S SXM",
    "MI300X PCIe",
    "RTX 4090 48GB",
    "L40G",
    "TPU v7",
    "Ascend 910B3",
    "Jetson Orin Nano",
    "NVIDIA",
    "GPU",
    "8x",
    "PCIe",
    "80GB",
    "| CPU |\n    p5.48xlarge",
    "Standard_ND96isr_H100_v5",
]
"""Devices that differ from each in the catalogue, in form, memory or all."""


def pairs(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(spelling.strip(), name) for name, spelled in table.items() for spelling in spelled.split("|")]


@pytest.mark.parametrize(("spelling", "name"), pairs(MODELS))
def test_a_model_is_found_however_it_is_spelled(spelling: str, name: str) -> None:
    assert named_model(spelling).name == name


@pytest.mark.parametrize("spelling", [each.strip() for each in OTHERS])
def test_another_shape_is_no_known_model(spelling: str) -> None:
    with pytest.raises(UserError):
        named_model(spelling)


@pytest.mark.parametrize(("spelling", "name"), pairs(DEVICES))
def test_a_device_is_found_however_it_is_spelled(spelling: str, name: str) -> None:
    assert named_device(spelling)[0].name == name


@pytest.mark.parametrize("spelling", [each.strip() for each in STRANGERS])
def test_another_form_or_memory_is_another_device(spelling: str) -> None:
    with pytest.raises(UserError, match="not built in"):
        named_device(spelling)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("nvidia/DeepSeek-R1-0528-FP4-v2", "fp4"), ("amd/Llama-3.3-70B-Instruct-MXFP4", "fp4"),
        ("amd/gpt-oss-120b-w-mxfp4-a-fp8", "fp4"), ("x-NVFP4", "fp4"), ("Qwen3-32B-FP8", "fp8"),
        ("x-FP8-dynamic", "fp8"),
        ("Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "int4"), ("x-quantized.w8a8", "int8"), ("x-W8A8-FP8", "fp8"),
        ("Llama-2-70B-Chat-AWQ", "int4"), ("Qwen2.5-72B-Instruct-GPTQ-Int8", "int8"), ("x-GPTQ", "int4"),
        ("x-bnb-4bit", "int4"), ("x-Q4_K_M.gguf", "int4"), ("x-Q8_0.gguf", "int8"), ("x-BF16", "bf16"),
    ],
)  # fmt: skip
def test_the_format_that_a_name_states(name: str, found: str) -> None:
    assert named_format(format_spelled(name)) == (found, "")


@pytest.mark.parametrize("name", ["Llama-3.1-8B-Instruct", "gpt-oss-120b", "Qwen2.5-VL-7B", "llama2-70b-99.9", "fp81"])
def test_a_name_without_a_format(name: str) -> None:
    assert format_spelled(name) == ""


@pytest.mark.parametrize(
    ("name", "found"),
    [("DeepSeek-R1-0528", "fp8"), ("gpt-oss-20b", "fp4"), ("moonshotai/Kimi-K2-Thinking", "int4"), ("Kimi-K2", "fp8"),
     ("Llama-3.1-8B", "bf16"), ("Llama-3.1-9B", "bf16")],
)  # fmt: skip
def test_the_format_that_a_model_is_published_in(name: str, found: str) -> None:
    assert published_format(name) == found


BEFORE = ("", "nvidia/", "RedHatAI/", "/models/", "models--Qwen--", "some-one/", "nvidia_")
BEHIND = (
    "",
    "-FP8",
    "-NVFP4",
    "-AWQ",
    "-GPTQ-Int4",
    "-quantized.w8a8",
    "-FP8-dynamic",
    "_fp8",
    " (FP8)",
    "-99.9",
    "-Q4_K_M.gguf",
)


@given(st.sampled_from(models()), st.sampled_from(BEFORE), st.sampled_from(BEHIND), st.booleans())
def test_what_stands_around_a_name_changes_no_shape(each: object, before: str, behind: str, upper: bool) -> None:
    name = each.name.split("/")[1]  # type: ignore[attr-defined]
    spelled = f"{before}{name}{behind}"
    assert named_model(spelled.upper() if upper else spelled) is each


@pytest.mark.deep
@settings(max_examples=examples(100))
@given(st.sampled_from(models()), st.sampled_from(BEFORE), st.sampled_from(BEHIND))
def test_another_number_is_never_the_same_model(each: object, before: str, behind: str) -> None:
    name = each.name.split("/")[1]  # type: ignore[attr-defined]
    with pytest.raises(UserError):
        named_model(f"{before}{name}-77b{behind}")


@given(
    st.sampled_from(devices()),
    st.sampled_from(("", "NVIDIA ", "8x ", "4x")),
    st.sampled_from(("", " x8", " (2x)", " GPU")),
)
def test_how_many_devices_there_are_changes_no_device(each: object, before: str, behind: str) -> None:
    assert named_device(f"{before}{each.name}{behind}")[0] is each  # type: ignore[attr-defined]


@given(st.sampled_from(devices()), st.integers(1, 999))
def test_a_stated_memory_is_the_device_s(each: object, size: int) -> None:
    """What is found has that memory, to 7 %, or takes the size for a part of its name (GH200 480GB: the host's)."""
    try:
        found = named_device(f"{each.name.split('-')[0]} {size} GB")[0]  # type: ignore[attr-defined]
    except UserError:
        return
    near = any(abs(found.memory_bytes / unit / size - 1) <= 0.07 for unit in (1e9, 1 << 30))
    assert near or (found.name == "GH200-96GB" and size in (120, 480))


def test_counts() -> None:
    stated = {"8xH100": 8, "H100 x4": 4, "H100 (2x)": 2, "MI300X": 0, "RTX 4090": 0, "GTX 980": 0}
    assert {name: counted(name) for name in stated} == stated


def test_a_plan_takes_no_model_s_format_in_silence() -> None:
    with pytest.raises(UserError, match=r"variant of Qwen/Qwen3-32B.*give Qwen/Qwen3-32B and fp8 as its format"):
        model("Qwen/Qwen3-32B-FP8")


def test_a_plan_takes_no_count_in_silence() -> None:
    assert device("NVIDIA H200 141GB HBM3e").name == "H200-SXM-141GB"
    with pytest.raises(UserError, match="not built in"):
        device("8xH100")
