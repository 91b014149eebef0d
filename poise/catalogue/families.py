"""Properties that each Hugging Face model class fixes besides its config keys: defaults, layer patterns and further
weights.

The facts are those of the `transformers` model classes of the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from poise.catalogue.config import Config
from poise.core.model import Model

Extra = Callable[[Config, Model], int]
"""Weights of one kind that the shape does not show, counted over the whole model."""

Pattern = Literal["full", "window", "late", "window-every", "linear-every"]
"""Which layers attend to everything where `layer_types` is absent: all; none (all keep a window); those before
`max_window_layers`; or one layer in `every`, the others keeping a window or a linear state."""


@dataclass(frozen=True, slots=True)
class Family:
    """One model class: config defaults that its published files leave out, its layer pattern and its extra weights.

    window: the key that holds the window's tokens.
    every: the keys that hold the pattern's period, with `period` as default.
    names: what the class calls standard keys; a dot leads into a section.
    ffn_widths: the feed-forward width in hidden widths, where no key states it.
    """

    extras: tuple[Extra, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    pattern: Pattern = "full"
    window: str = "sliding_window"
    every: tuple[str, ...] = ()
    period: int = 1
    gated: bool = True
    expert_bias: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    ffn_widths: int = 0


def attending(model: Model) -> int:
    """Layers with an attention of their own, full or windowed."""
    return model.layers - model.linear_layers


def qkv_biases(config: Config, model: Model) -> int:
    """Biases of queries, keys and values."""
    return attending(model) * (model.heads + 2 * model.kv_heads) * model.head_dim


def attention_biases(config: Config, model: Model) -> int:
    """Biases of queries, keys, values and output, where `attention_bias` is set."""
    if not config.flag("attention_bias"):
        return 0
    if model.mla is not None:
        down = model.mla.q_rank + model.mla.kv_rank + model.mla.rope_dim
        return model.layers * (down + model.hidden)
    return qkv_biases(config, model) + attending(model) * model.hidden


def mlp_biases(config: Config, model: Model) -> int:
    """Biases of dense feed-forward blocks, where `mlp_bias` is set."""
    return model.dense_layers * (2 * model.ffn + model.hidden) if config.flag("mlp_bias") else 0


def head_norms(config: Config, model: Model) -> int:
    """One norm over a query head and one over a key head, a layer."""
    return attending(model) * 2 * model.head_dim


def wide_norms(config: Config, model: Model) -> int:
    """One norm over all query heads and one over all key heads, a layer."""
    return attending(model) * (model.heads + model.kv_heads) * model.head_dim


def latent_norms(config: Config, model: Model) -> int:
    """Norms of the compressed queries and of the compressed keys and values (latent attention)."""
    return model.layers * (model.mla.q_rank + model.mla.kv_rank) if model.mla else 0


def post_norms(config: Config, model: Model) -> int:
    """Two further norms a layer: after attention and after the feed-forward block."""
    return 2 * model.layers * model.hidden


def sinks(config: Config, model: Model) -> int:
    """One attention sink a head."""
    return attending(model) * model.heads


def router_biases(config: Config, model: Model) -> int:
    """One bias an expert in the router: learned (gpt-oss), or the load-balancing correction (DeepSeek-V3)."""
    return model.moe.layers * model.moe.experts if model.moe else 0


def shared_gates(config: Config, model: Model) -> int:
    """The gate of the shared expert: one vector a mixture-of-experts layer."""
    return model.moe.layers * model.hidden if model.moe and model.moe.shared else 0


def output_gates(config: Config, model: Model) -> int:
    """A gate on the attention output, as wide as the queries, with a bias where they have one."""
    rows = model.hidden + config.flag("attention_bias")
    return attending(model) * rows * model.heads * model.head_dim


def optional_head_norms(config: Config, model: Model) -> int:
    """`head_norms` where `use_qk_norm` is set."""
    return head_norms(config, model) if config.flag("use_qk_norm") else 0


def all_biases(config: Config, model: Model) -> int:
    """Biases of all projections and of both norms."""
    projections = (model.heads + 2 * model.kv_heads) * model.head_dim + model.hidden + model.ffn + model.hidden
    return model.layers * (projections + 2 * model.hidden)


def opt_extras(config: Config, model: Model) -> int:
    """OPT's learned positions (two spare rows), and the biases of its projections and norms."""
    positions = (model.max_context + 2) * model.hidden
    layer = 4 * model.hidden + model.ffn + model.hidden + 2 * model.hidden
    return positions + model.layers * layer + model.hidden


def gpt2_extras(config: Config, model: Model) -> int:
    """GPT-2's learned positions, all biases and that of the last norm."""
    return model.max_context * model.hidden + all_biases(config, model) + model.hidden


_QWEN_HYBRID = Family(
    extras=(attention_biases, head_norms, output_gates, shared_gates),
    defaults={"head_dim": 256, "linear_conv_kernel_dim": 4},
    pattern="linear-every",
    every=("full_attention_interval",),
    period=4,
)
_QWEN3 = Family(extras=(attention_biases, head_norms), defaults={"head_dim": 128}, pattern="late")
_QWEN3_MOE = Family(extras=(attention_biases, head_norms))
_DEEPSEEK_V3 = Family(extras=(attention_biases, latent_norms, router_biases))
_GPT = {
    "num_hidden_layers": "n_layer",
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
}
_GEMMA = {"tie_word_embeddings": True, "head_dim": 256}

FAMILIES: dict[str, Family] = {
    "llama": Family(extras=(attention_biases, mlp_biases)),
    "mistral": Family(defaults={"num_key_value_heads": 8, "sliding_window": 4096}, pattern="window"),
    "mixtral": Family(defaults={"num_key_value_heads": 8}, pattern="window"),
    "qwen2": Family(extras=(qkv_biases,), pattern="late"),
    "qwen2_moe": Family(extras=(qkv_biases, shared_gates)),
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "qwen3_next": _QWEN_HYBRID,
    "qwen3_5_text": _QWEN_HYBRID,
    "qwen3_5_moe_text": _QWEN_HYBRID,
    "deepseek_v2": Family(extras=(attention_biases, latent_norms)),
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3,
    "gpt_oss": Family(
        extras=(attention_biases, sinks, router_biases),
        defaults={"head_dim": 64, "sliding_window": 128, "attention_bias": True},
        pattern="window-every",
        period=2,
        expert_bias=True,
    ),
    "gemma": Family(extras=(attention_biases,), defaults=_GEMMA),
    "gemma2": Family(
        extras=(attention_biases, post_norms),
        defaults={**_GEMMA, "sliding_window": 4096},
        pattern="window-every",
        period=2,
    ),
    "gemma3_text": Family(
        extras=(attention_biases, post_norms, head_norms),
        defaults={
            **_GEMMA,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "vocab_size": 262_208,
            "max_position_embeddings": 131_072,
            "sliding_window": 4096,
        },
        pattern="window-every",
        every=("sliding_window_pattern", "_sliding_window_pattern"),
        period=6,
    ),
    "llama4_text": Family(
        extras=(attention_biases,),
        defaults={"attention_chunk_size": 8192, "n_shared_experts": 1, "head_dim": 128},
        pattern="window-every",
        window="attention_chunk_size",
        every=("no_rope_layer_interval",),
        period=4,
    ),
    "phi3": Family(pattern="window"),
    "olmoe": Family(extras=(attention_biases, wide_norms)),
    "minimax_m2": Family(extras=(wide_norms, router_biases)),
    "glm4_moe": Family(extras=(attention_biases, optional_head_norms, router_biases)),
    "glm4_moe_lite": Family(extras=(attention_biases, latent_norms, router_biases)),
    "glm": Family(extras=(qkv_biases,)),
    "glm4": Family(extras=(post_norms,)),
    "chatglm": Family(
        extras=(qkv_biases,),
        names={
            "num_hidden_layers": "num_layers",
            "num_key_value_heads": "multi_query_group_num",
            "head_dim": "kv_channels",
            "intermediate_size": "ffn_hidden_size",
            "vocab_size": "padded_vocab_size",
            "max_position_embeddings": "seq_length",
        },
    ),
    "granite": Family(extras=(attention_biases, mlp_biases)),
    "cohere": Family(defaults={"tie_word_embeddings": True}),
    "cohere2": Family(
        defaults={"tie_word_embeddings": True, "sliding_window": 4096},
        pattern="window-every",
        every=("sliding_window_pattern",),
        period=4,
    ),
    "ernie4_5_moe": Family(
        extras=(router_biases,),
        names={
            "num_experts": "moe_num_experts",
            "num_experts_per_tok": "moe_k",
            "n_shared_experts": "moe_num_shared_experts",
            "first_k_dense_replace": "moe_layer_start_index",
        },
    ),
    **dict.fromkeys(("internlm", "internlm2", "smollm3", "stablelm", "muse_glimmer_text"), Family()),
    "mimo": Family(extras=(qkv_biases,), pattern="late"),
    "olmo2": Family(extras=(wide_norms,)),
    "phimoe": Family(extras=(attention_biases,)),
    "seed_oss": Family(extras=(qkv_biases,)),
    "step3p7": Family(extras=(router_biases,), names={"shared_expert_intermediate_size": "share_expert_dim"}),
    "starcoder2": Family(extras=(all_biases,), defaults={"tie_word_embeddings": True}, pattern="window", gated=False),
    "mpt": Family(
        defaults={"tie_word_embeddings": True},
        gated=False,
        names={
            "num_hidden_layers": "n_layers",
            "hidden_size": "d_model",
            "num_attention_heads": "n_heads",
            "max_position_embeddings": "max_seq_len",
        },
        ffn_widths=4,
    ),
    "nemotron": Family(gated=False),
    "phi": Family(extras=(all_biases,), gated=False),
    "bloom": Family(
        extras=(all_biases,),
        defaults={"tie_word_embeddings": True, "max_position_embeddings": 2048},
        gated=False,
        names={"num_hidden_layers": "n_layer", "hidden_size": "n_embed", "num_attention_heads": "n_head"},
        ffn_widths=4,
    ),
    "gpt2": Family(
        extras=(gpt2_extras,),
        defaults={"tie_word_embeddings": True},
        gated=False,
        names=_GPT,
        ffn_widths=4,
    ),
    "gptj": Family(gated=False, names=_GPT, ffn_widths=4),
    "gpt_neox": Family(extras=(all_biases,), gated=False),
    "falcon": Family(
        defaults={"tie_word_embeddings": True, "max_position_embeddings": 2048},
        gated=False,
        names={"num_key_value_heads": "num_kv_heads"},
        ffn_widths=4,
    ),
    "dbrx": Family(
        names={
            "num_hidden_layers": "n_layers",
            "hidden_size": "d_model",
            "num_attention_heads": "n_heads",
            "num_key_value_heads": "attn_config.kv_n_heads",
            "max_position_embeddings": "max_seq_len",
            "intermediate_size": "ffn_config.ffn_hidden_size",
            "num_experts": "ffn_config.moe_num_experts",
            "num_experts_per_tok": "ffn_config.moe_top_k",
        }
    ),
    "opt": Family(extras=(opt_extras,), defaults={"tie_word_embeddings": True}, gated=False),
}
"""Model classes by `model_type`."""
