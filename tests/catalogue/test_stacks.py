"""Built-in models that are lists of unlike layers: published counts, and what they keep of their context."""

from __future__ import annotations

import pytest

from poise.catalogue import model
from poise.catalogue.huggingface import from_keys
from poise.core.errors import UserError
from poise.core.layer import Linear

COUNTS = {
    "deepseek-ai/DeepSeek-V3.2": (671, 37),
    "deepseek-ai/DeepSeek-V4-Pro": (1600, 49),
    "deepseek-ai/DeepSeek-V4-Flash": (284, 13),
    "zai-org/GLM-5": (744, 40),
    "zai-org/GLM-5.2": (744, 40),
    "MiniMaxAI/MiniMax-M3": (428, 23),
    "moonshotai/Kimi-K3": (2800, 104),
    "moonshotai/Kimi-Linear-48B-A3B-Instruct": (48, 3),
    "XiaomiMiMo/MiMo-V2-Flash": (309, 15),
    "stepfun-ai/Step-3.7-Flash": (196, 11),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": (31.6, 3.6),
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16": (120, 12),
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": (550, 55),
    "nvidia/Nemotron-H-56B-Base-8K": (56, 56),
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1": (49.9, 49.9),
    "ai21labs/Jamba-v0.1": (52, 12),
    "Qwen/Qwen3.8-2.4T-A95B": (2400, 95),
    "google/gemma-4-26B-A4B": (25.2, 3.8),
    "google/gemma-4-31B-it": (30.7, 30.7),
}
"""Published billions of weights, and of those that one token passes: by the publishers' reports, names or cards."""

UNPUBLISHED = {"zai-org/GLM-5.3-Flash"}
"""Models whose publisher states no count."""


@pytest.mark.parametrize("name", COUNTS)
def test_counts_meet_the_published_ones(name: str) -> None:
    """Totals to 2.5 %. Active weights lie within the embeddings that publishers do or do not count, and 10 %."""
    shape, (total, active) = model(name), COUNTS[name]
    assert shape.parameters / 1e9 == pytest.approx(total, rel=0.025)
    embeddings = 2 * shape.vocab * shape.hidden / 1e9
    counted = shape.active_parameters / 1e9
    assert (counted - embeddings) * 0.9 <= active <= counted * 1.1


KB, MB = 1e3, 1e6


@pytest.mark.parametrize(
    ("name", "growing", "state"),
    [
        ("deepseek-v3.2", 70.3 * KB + 61 * 132, 0),
        ("glm-5", 89.9 * KB + 78 * 132, 0),
        ("glm-5.2", 89.9 * KB + 21 * 132, 0),
        ("minimax-m3", 122.9 * KB + 57 * 256, 0),
        ("kimi-k2", 70.3 * KB, 0),
        ("qwen3-next", 24.6 * KB, 75.5 * MB),
        ("qwen3.5-27b", 65.5 * KB, 151 * MB),
        ("qwen3.5-35b-a3b", 20.5 * KB, 62.9 * MB),
        ("qwen3.5-397b", 30.7 * KB, 188.7 * MB),
        ("qwen3.8-2.4t-a95b", 94.2 * KB, 578.8 * MB),
        ("kimi-linear", 8.06 * KB, 41.9 * MB),
        ("kimi-k3", 27.6 * KB, 434 * MB),
        ("nemotron-h-56b", 41.0 * KB, 906 * MB),
        ("nemotron-3-nano", 6.1 * KB, 48.2 * MB),
        ("nemotron-3-super", 8.2 * KB, 167.8 * MB),
        ("nemotron-3-ultra", 12.3 * KB, 402.7 * MB),
        ("jamba", 16.4 * KB, 14.7 * MB),
        ("gpt-oss-120b", 36.9 * KB, 0),
        ("gpt-oss-20b", 24.6 * KB, 0),
        ("step-3.7-flash", 49 * KB, 0),
        ("mimo-v2-flash", 23 * KB, 0),
        ("gemma-4-26b-a4b", 20.5 * KB, 0),
        ("gemma-4-31b", 82 * KB, 0),
        ("llama-4-scout", 49 * KB, 0),
        ("nemotron-super-49b", 200.7 * KB, 0),
    ],
)
def test_cache_and_state_are_the_known_ones(name: str, growing: float, state: float) -> None:
    """To 1 %, with 16-bit values; matrices of the state alone, for published figures leave the convolution out."""
    shape = model(name)
    assert shape.kv_bytes_per_token(16) == pytest.approx(growing, rel=0.01)
    matrices = sum(n * (each.state_bytes - convolution(each)) for n, each in shape.mixers() if isinstance(each, Linear))
    assert matrices == pytest.approx(state, rel=0.01)


def convolution(linear: Linear) -> int:
    """Bytes of the last inputs of a convolution."""
    return 2 * linear.channels * (linear.conv - 1)


@pytest.mark.parametrize(
    ("name", "bounded"),
    [
        ("gpt-oss-120b", 4.7 * MB),
        ("gpt-oss-20b", 3.1 * MB),
        ("step-3.7-flash", 69 * MB),
        ("mimo-v2-flash", 25.6 * MB),
        ("gemma-4-26b-a4b", 210 * MB),
        ("gemma-4-31b", 839 * MB),
        ("llama-4-scout", 1.21e9),
    ],
)
def test_windows_stop_growing(name: str, bounded: float) -> None:
    shape, long = model(name), 100_000
    assert shape.kv_bytes(long, 16) - long * shape.kv_bytes_per_token(16) == pytest.approx(bounded, rel=0.02)


def test_compressed_caches_follow_their_formula() -> None:
    """DeepSeek-V4-Pro at a million tokens: 5.2e9 values with its index, 11.5 % of DeepSeek-V3.2's 45e9."""
    n, pro = 1 << 20, model("deepseek-v4-pro")
    entries = 61 * 512 * 128 + 30 * 512 * (n // 4) + 31 * 512 * (n // 128)
    index = 30 * (n // 4) * 132
    assert pro.kv_bytes(n, 16) == 2 * entries + index
    assert entries + 30 * (n // 4) * 128 == pytest.approx(5.2e9, rel=0.01)
    flash = model("deepseek-v4-flash")
    assert flash.kv_bytes_per_token(8) == pytest.approx(21 * (512 + 132) / 4 + 20 * 512 / 128)


def _layer(**more: object) -> dict[str, object]:
    return {"hidden_size": 64, "vocab_size": 10, "max_position_embeddings": 99, "num_attention_heads": 4, **more}


HEADS = {
    "mamba_num_heads": 2, "mamba_head_dim": 8, "n_groups": 1, "ssm_state_size": 8, "conv_kernel": 4,
    "intermediate_size": 8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        (_layer(model_type="nemotron_h", **HEADS, hybrid_override_pattern="MX"), "hybrid_override_pattern is 'MX'"),
        (
            _layer(model_type="deepseek_v4", num_hidden_layers=3, sliding_window=8, compress_ratios=[4]),
            "compress_ratios",
        ),
        (_layer(model_type="minimax_m3"), "sparse_attention_config is missing"),
        (_layer(model_type="kimi_linear"), "linear_attn_config is missing"),
        (_layer(model_type="nemotron-nas"), "block_configs is missing"),
    ],
)
def test_a_list_that_cannot_be_read_names_its_key(keys: dict[str, object], fault: str) -> None:
    with pytest.raises(UserError, match=fault) as caught:
        from_keys(keys, "config.json", "here")
    assert "\n" not in str(caught.value)


GRANITE = _layer(
    model_type="granitemoehybrid", num_key_value_heads=2, layer_types=["mamba", "attention", "mamba"],
    mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=1, mamba_d_state=32, mamba_d_conv=4, num_local_experts=6,
    num_experts_per_tok=2, intermediate_size=24, shared_intermediate_size=48,
)  # fmt: skip
FALCON = _layer(
    model_type="falcon_h1", num_hidden_layers=5, num_key_value_heads=2, intermediate_size=24,
    mamba_n_heads=8, mamba_d_ssm=128, mamba_d_head="auto", mamba_n_groups=1, mamba_d_state=32, mamba_d_conv=4,
)  # fmt: skip


def test_granite_alternates_and_falcon_has_both_side_by_side() -> None:
    granite, falcon = from_keys(GRANITE, "g", "g"), from_keys(FALCON, "f", "f")
    state = 8 * 16 * 32 * 4 + 3 * (128 + 64) * 2
    assert (granite.attending, granite.linear_layers, granite.state_bytes) == (1, 2, 2 * state)
    assert granite.moe is not None
    assert (granite.moe.layers, granite.moe.ffn, granite.moe.shared_ffn) == (3, 24, 48)
    assert (falcon.attending, falcon.linear_layers, falcon.state_bytes) == (5, 5, 5 * state)
    assert falcon.layers == 5
