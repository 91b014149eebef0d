"""The built-in models against published counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.catalogue import model, models
from poise.core.errors import UserError
from poise.core.model import Model
from tests.catalogue.test_stacks import COUNTS, UNPUBLISHED

# Weights of the text model as the reference implementation (`transformers`, built without memory) counts them; for
# most these are the figures that the repositories publish. Routers' correction biases are counted.
TOTAL = {
    "poise/tiny": 3_426_560,
    "meta-llama/Llama-2-7b-hf": 6_738_415_616,
    "meta-llama/Llama-2-13b-hf": 13_015_864_320,
    "meta-llama/Llama-2-70b-hf": 68_976_648_192,
    "meta-llama/Meta-Llama-3-8B": 8_030_261_248,
    "meta-llama/Meta-Llama-3-70B": 70_553_706_496,
    "meta-llama/Llama-3.1-8B": 8_030_261_248,
    "meta-llama/Llama-3.1-70B": 70_553_706_496,
    "meta-llama/Llama-3.1-405B": 405_853_388_800,
    "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "meta-llama/Llama-3.2-3B": 3_212_749_824,
    "meta-llama/Llama-3.3-70B-Instruct": 70_553_706_496,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": 107_769_861_120,
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": 400_711_848_960,
    "mistralai/Mistral-7B-v0.1": 7_241_732_096,
    "mistralai/Mistral-7B-v0.3": 7_248_023_552,
    "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
    "mistralai/Mixtral-8x22B-v0.1": 140_620_634_112,
    "Qwen/Qwen2.5-7B": 7_615_616_512,
    "Qwen/Qwen2.5-14B": 14_770_033_664,
    "Qwen/Qwen2.5-32B": 32_763_876_352,
    "Qwen/Qwen2.5-72B": 72_706_203_648,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "Qwen/Qwen3-4B": 4_022_468_096,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-14B": 14_768_307_200,
    "Qwen/Qwen3-32B": 32_762_123_264,
    "Qwen/Qwen3-30B-A3B": 30_532_122_624,
    "Qwen/Qwen3-235B-A22B": 235_093_634_560,
    "Qwen/Qwen3-Next-80B-A3B-Instruct": 79_674_391_296,
    "deepseek-ai/DeepSeek-V2-Lite": 15_706_484_224,
    "deepseek-ai/DeepSeek-V3": 671_026_419_200,
    "deepseek-ai/DeepSeek-R1": 671_026_419_200,
    "moonshotai/Kimi-K2-Instruct": 1_026_408_232_448,
    "MiniMaxAI/MiniMax-M2.5": 228_689_764_864,
    "openai/gpt-oss-20b": 20_914_757_184,
    "openai/gpt-oss-120b": 116_829_156_672,
    "google/gemma-3-4b-it": 3_880_263_168,
    "google/gemma-3-12b-it": 11_766_034_176,
    "google/gemma-3-27b-it": 27_009_346_304,
    "microsoft/Phi-3-mini-4k-instruct": 3_821_079_552,
    "microsoft/phi-4": 14_659_507_200,
    "allenai/OLMoE-1B-7B-0924": 6_919_161_856,
    "facebook/opt-13b": 12_853_473_280,
    "facebook/opt-30b": 29_974_540_288,
    "facebook/opt-66b": 65_719_701_504,
}

# Published billions of weights a token passes, and how many of the two embeddings each publisher counts.
ACTIVE = [
    ("mixtral-8x7b", 12.9, 2),
    ("mixtral-8x22b", 39, 2),
    ("qwen3-30b-a3b", 3.3, 2),
    ("qwen3-235b-a22b", 22, 2),
    ("deepseek-v3", 37, 2),
    ("deepseek-v2-lite", 2.4, 1),
    ("gpt-oss-20b", 3.61, 1),
    ("gpt-oss-120b", 5.13, 1),
    ("llama-4-scout", 17, 2),
    ("llama-4-maverick", 17, 2),
    ("kimi-k2", 32, 1),
    ("olmoe-1b-7b", 1.3, 2),
    ("qwen3.5-397b-a17b", 17, 2),
    ("qwen1.5-moe-a2.7b", 2.7, 2),
    ("phi-3.5-moe", 6.6, 2),
    ("ernie-4.5-300b-a47b", 47, 2),
]

KV_BYTES_PER_TOKEN = {  # bf16
    "llama-3.1-8b": 131_072,
    "llama-2-7b": 524_288,
    "llama-3.1-70b": 327_680,
    "deepseek-v3": (512 + 64) * 61 * 2,
    "qwen3-32b": 262_144,
    "mistral-7b-v0.3": 131_072,
}


PUBLISHED = {
    "huggyllama/llama-7b": 6.74,
    "huggyllama/llama-13b": 13.02,
    "huggyllama/llama-30b": 32.53,
    "huggyllama/llama-65b": 65.29,
    "codellama/CodeLlama-7b-hf": 6.74,
    "codellama/CodeLlama-13b-hf": 13.02,
    "codellama/CodeLlama-34b-hf": 33.74,
    "deepseek-ai/deepseek-llm-7b-base": 6.91,
    "deepseek-ai/deepseek-llm-67b-base": 67,
    "01-ai/Yi-6B": 6.06,
    "01-ai/Yi-34B": 34.4,
    "upstage/SOLAR-10.7B-v1.0": 10.7,
    "mistralai/Mistral-Nemo-Base-2407": 12.2,
    "mistralai/Mistral-Small-24B-Base-2501": 23.6,
    "mistralai/Mistral-Large-Instruct-2407": 123,
    "Qwen/Qwen1.5-7B": 7.72,
    "Qwen/Qwen1.5-14B": 14.2,
    "Qwen/Qwen1.5-72B": 72.3,
    "Qwen/Qwen2-0.5B": 0.49,
    "Qwen/Qwen2-1.5B": 1.54,
    "Qwen/Qwen2-7B": 7.62,
    "Qwen/Qwen2-72B": 72.71,
    "Qwen/Qwen2.5-0.5B": 0.49,
    "Qwen/Qwen2.5-1.5B": 1.54,
    "Qwen/Qwen2.5-3B": 3.09,
    "Qwen/QwQ-32B": 32.8,
    "Qwen/Qwen3-1.7B": 1.72,
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": 480,
    "Qwen/Qwen2-57B-A14B": 57.4,
    "deepseek-ai/DeepSeek-V2": 236,
    "zai-org/GLM-4.5": 353,
    "zai-org/GLM-4.5-Air": 106,
    "google/gemma-2b": 2.51,
    "google/gemma-7b": 8.54,
    "google/gemma-2-2b": 2.61,
    "google/gemma-2-9b": 9.24,
    "google/gemma-2-27b": 27.2,
    "google/gemma-3-1b-it": 1.0,
    "microsoft/Phi-3-medium-4k-instruct": 14.0,
    "microsoft/Phi-3.5-mini-instruct": 3.82,
    "ibm-granite/granite-3.1-8b-instruct": 8.17,
    "baichuan-inc/Baichuan2-13B-Base": 13.9,
    "BAAI/Aquila-7B": 7.3,
    "CohereForAI/c4ai-command-r-v01": 35,
    "CohereForAI/c4ai-command-r-plus": 104,
    "nvidia/Nemotron-4-340B-Instruct": 341,
    "facebook/opt-2.7b": 2.65,
    "facebook/opt-6.7b": 6.66,
    "facebook/opt-175b": 175,
    "bigscience/bloom-7b1": 7.07,
    "bigscience/bloom": 176.2,
    "EleutherAI/gpt-j-6b": 6.05,
    "EleutherAI/gpt-neox-20b": 20.6,
    "tiiuae/falcon-7b": 6.92,
    "tiiuae/falcon-40b": 41.3,
    "tiiuae/falcon-180B": 179,
    "microsoft/phi-2": 2.78,
    "databricks/dbrx-base": 131.6,
    "Qwen/Qwen3-4B-Instruct-2507": 4.02,
    "Qwen/Qwen3-30B-A3B-Instruct-2507": 30.5,
    "Qwen/Qwen3-235B-A22B-Instruct-2507": 235,
    "Qwen/Qwen3-VL-8B-Instruct": 8.19,
    "Qwen/Qwen3-VL-32B-Instruct": 32.8,
    "Qwen/Qwen3-VL-2B-Instruct": 1.72,
    "Qwen/Qwen3.5-27B": 27,
    "Qwen/Qwen3.5-35B-A3B": 35,
    "Qwen/Qwen3.5-122B-A10B": 122,
    "Qwen/Qwen3.5-397B-A17B": 397,
    "Qwen/Qwen1.5-1.8B": 1.84,
    "Qwen/Qwen1.5-4B": 3.95,
    "Qwen/Qwen1.5-32B": 32.5,
    "Qwen/Qwen1.5-110B": 111,
    "Qwen/Qwen1.5-MoE-A2.7B": 14.3,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1.78,
    "deepseek-ai/deepseek-coder-1.3b-base": 1.35,
    "deepseek-ai/deepseek-coder-6.7b-base": 6.74,
    "deepseek-ai/deepseek-coder-33b-base": 33.3,
    "zai-org/GLM-4.7-Flash": 30,
    "zai-org/glm-4-9b-chat-hf": 9.4,
    "zai-org/GLM-4-32B-0414": 32.6,
    "zai-org/chatglm3-6b": 6.24,
    "mistralai/Mistral-7B-Instruct-v0.2": 7.24,
    "mistralai/Ministral-8B-Instruct-2410": 8.02,
    "mistralai/Codestral-22B-v0.1": 22.2,
    "mistralai/Mistral-Small-Instruct-2409": 22.2,
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503": 23.6,
    "microsoft/Phi-4-mini-instruct": 3.84,
    "microsoft/Phi-3.5-MoE-instruct": 41.9,
    "microsoft/Phi-mini-MoE-instruct": 7.6,
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1.1,
    "HuggingFaceTB/SmolLM2-135M": 0.1345,
    "HuggingFaceTB/SmolLM2-360M": 0.362,
    "HuggingFaceTB/SmolLM2-1.7B": 1.71,
    "HuggingFaceTB/SmolLM3-3B": 3.08,
    "allenai/OLMo-2-1124-7B": 7.3,
    "allenai/OLMo-2-1124-13B": 13.7,
    "allenai/OLMo-2-0325-32B": 32.2,
    "tiiuae/Falcon3-1B-Base": 1.67,
    "tiiuae/Falcon3-3B-Base": 3.23,
    "tiiuae/Falcon3-7B-Base": 7.46,
    "tiiuae/Falcon3-10B-Base": 10.3,
    "internlm/internlm2-7b": 7.74,
    "internlm/internlm2-20b": 19.86,
    "internlm/internlm-20b": 20.1,
    "01-ai/Yi-1.5-9B": 8.83,
    "bigcode/starcoder2-3b": 3.03,
    "bigcode/starcoder2-7b": 7.17,
    "bigcode/starcoder2-15b": 15.96,
    "stabilityai/stablelm-3b-4e1t": 2.795,
    "stabilityai/stablelm-2-1_6b": 1.64,
    "stabilityai/stablelm-2-12b": 12.14,
    "baichuan-inc/Baichuan2-7B-Base": 7.51,
    "ByteDance-Seed/Seed-OSS-36B-Instruct": 36.2,
    "baidu/ERNIE-4.5-21B-A3B-PT": 21.8,
    "baidu/ERNIE-4.5-300B-A47B-PT": 300,
    "ibm-granite/granite-3.1-2b-instruct": 2.53,
    "CohereForAI/c4ai-command-a-03-2025": 111,
    "CohereForAI/c4ai-command-r-08-2024": 32.3,
    "CohereForAI/aya-expanse-8b": 8.03,
    "codellama/CodeLlama-70b-hf": 69,
    "XiaomiMiMo/MiMo-7B-Base": 7.6,
    "mosaicml/mpt-7b": 6.65,
    "mosaicml/mpt-30b": 29.96,
    "EleutherAI/pythia-1.4b": 1.415,
    "EleutherAI/pythia-2.8b": 2.775,
    "EleutherAI/pythia-6.9b": 6.857,
    "EleutherAI/pythia-12b": 11.846,
    "facebook/opt-125m": 0.125,
    "facebook/opt-1.3b": 1.316,
}
"""Billions of weights as the publishers state them, of models whose exact count was not taken."""


def test_the_list_of_counts_covers_every_built_in() -> None:
    assert {each.name for each in models()} == {*TOTAL, *PUBLISHED, *COUNTS, *UNPUBLISHED}


@pytest.mark.parametrize("name", TOTAL)
def test_weights_are_counted_exactly(name: str) -> None:
    assert model(name).parameters == TOTAL[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_meet_the_published_figure(name: str) -> None:
    """To 1 %, or half of the last digit that the publisher gives."""
    assert model(name).parameters / 1e9 == pytest.approx(PUBLISHED[name], rel=0.01)


@pytest.mark.parametrize(("name", "billions", "embeddings"), ACTIVE)
def test_active_weights_meet_the_published_figure(name: str, billions: float, embeddings: int) -> None:
    """To 2.5 %: publishers round to two digits."""
    shape = model(name)
    counted = shape.active_parameters - (2 - embeddings) * shape.vocab * shape.hidden
    assert counted / 1e9 == pytest.approx(billions, rel=0.025)


@pytest.mark.parametrize(("name", "size"), KV_BYTES_PER_TOKEN.items())
def test_kv_bytes_per_token(name: str, size: int) -> None:
    assert model(name).kv_bytes_per_token(16) == size


@pytest.mark.parametrize(
    ("name", "window", "window_layers", "linear_layers"),
    [
        ("mistral-7b-v0.1", 4096, 32, 0),
        ("mistral-7b-v0.3", 0, 0, 0),
        ("gpt-oss-20b", 128, 12, 0),
        ("gpt-oss-120b", 128, 18, 0),
        ("gemma-3-4b", 1024, 29, 0),
        ("gemma-3-12b", 1024, 40, 0),
        ("gemma-3-27b", 1024, 52, 0),
        ("llama-4-scout", 8192, 36, 0),
        ("qwen2.5-7b", 0, 0, 0),
        ("qwen3-next-80b-a3b", 0, 0, 36),
    ],
)
def test_layers_that_do_not_grow(name: str, window: int, window_layers: int, linear_layers: int) -> None:
    shape = model(name)
    assert (shape.window, shape.window_layers, shape.linear_layers) == (window, window_layers, linear_layers)


def test_maverick_alternates_dense_and_expert_layers() -> None:
    shape = model("llama-4-maverick")
    assert (shape.dense_layers, shape.ffn) == (24, 16_384)
    assert shape.moe is not None
    assert (shape.moe.layers, shape.moe.ffn, shape.moe.shared) == (24, 8192, 1)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("llama3-8b", "meta-llama/Meta-Llama-3-8B"),
        ("LLaMA 3 8B Instruct", "meta-llama/Meta-Llama-3-8B"),
        ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("llama3_1-70b", "meta-llama/Llama-3.1-70B"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B"),
        ("meta-llama/Llama-2-70b-chat-hf", "meta-llama/Llama-2-70b-hf"),
        ("Llama-3.3-70B", "meta-llama/Llama-3.3-70B-Instruct"),
        ("qwen3-32b", "Qwen/Qwen3-32B"),
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B"),
        ("mistral-7b", "mistralai/Mistral-7B-v0.3"),
        ("mixtral_8x7b", "mistralai/Mixtral-8x7B-v0.1"),
        ("gemma-3-27b", "google/gemma-3-27b-it"),
        ("gpt-oss-20b", "openai/gpt-oss-20b"),
        ("tiny", "poise/tiny"),
    ],
)
def test_aliases(alias: str, name: str) -> None:
    assert model(alias).name == name


@pytest.mark.parametrize("each", models(), ids=lambda each: each.name)
def test_every_model_is_found_with_and_without_its_owner(each: Model) -> None:
    assert model(each.name) is each
    assert model(each.name.split("/")[1].upper()) is each
    assert each.source


def test_a_path_below_the_home_folder_of_no_user_is_a_user_error() -> None:
    with pytest.raises(UserError, match=r"~nobody-at-all/config\.json: no user of that name has a home folder; write"):
        model("~nobody-at-all/config.json")


def test_an_unknown_model_names_the_nearest_and_the_way_out() -> None:
    with pytest.raises(
        UserError, match=r"'qwen3-33b' is not built in; nearest are Qwen/Qwen3-.*config\.json"
    ) as caught:
        model("qwen3-33b")
    assert "\n" not in str(caught.value)


def test_a_path_is_read_and_a_name_wins_over_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = '{"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 8,'
    keys += '"num_attention_heads": 2, "vocab_size": 9, "max_position_embeddings": 64}'
    for folder in ("mine", "tiny"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text(keys)
    monkeypatch.chdir(tmp_path)
    for path in ("mine", "./mine", "mine/config.json", tmp_path / "mine"):
        assert (model(path).name, model(path).layers) == ("mine", 1)
    assert model("tiny").name == "poise/tiny"
    assert model("./tiny").layers == 1
