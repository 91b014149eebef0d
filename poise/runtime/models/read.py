"""A `Shape` from the keys of a Hugging Face `config.json`; every error names file, key, rule and cure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from poise.catalogue.config import Config
from poise.core.errors import UserError
from poise.runtime.models.read_experts import experts, sparse
from poise.runtime.models.read_rope import number, rope
from poise.runtime.models.shape import Latent, Shape

LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "mixtral", "deepseek_v2")
FAMILIES = (*LLAMA_LIKE, "gpt2")
"""Values of `model_type`."""

DEFAULTS: dict[str, dict[str, object]] = {
    "mistral": {"sliding_window": 4096, "num_key_value_heads": 8},
    "mixtral": {"rope_theta": 1e6, "rms_norm_eps": 1e-5, "num_key_value_heads": 8},
    "qwen3": {"head_dim": 128},
}
"""What the model classes of `transformers` take where a key is absent, if it differs from the other families'."""


def read(source: Path | Mapping[str, object]) -> Shape:
    """The shape of a `config.json`, or of its keys."""
    config = Config.load(source) if isinstance(source, Path) else Config(source, "config")
    family = config.string("model_type")
    if family not in FAMILIES:
        raise config.fault("model_type", f"it must be one of {', '.join(FAMILIES)}", "give such a model")
    if config.get("quantization_config") is not None:
        raise config.fault("quantization_config", "weights that are trained are not quantized", "leave it out")
    config = config.with_defaults(DEFAULTS.get(family, {}))
    shape = _gpt2(config) if family == "gpt2" else _llama(config, family)
    _check(config, shape)
    return shape


def _llama(config: Config, family: str) -> Shape:
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    layers = config.whole("num_hidden_layers")
    _activation(config, "hidden_act", ("silu", "swish"), "silu")
    latent = _latent(config) if family == "deepseek_v2" else None
    head = latent.plain + latent.rotary if latent else config.whole("head_dim", default=hidden // heads)
    biased = config.flag("attention_bias") and family in ("llama", "qwen3", "qwen3_moe", "deepseek_v2")
    always = family == "qwen2" or (family == "qwen2_moe" and config.get("qkv_bias") is not False)
    return Shape(
        family, config.whole("vocab_size"), hidden, layers, heads,
        config.whole("num_key_value_heads", default=heads), head, config.whole("intermediate_size"),
        config.whole("max_position_embeddings", default=2048),
        number(config, "rms_norm_eps", 1e-6), config.flag("tie_word_embeddings"), _windows(config, family, layers),
        sparse(config, family, layers), qkv_bias=biased or always, out_bias=biased, mlp_bias=config.flag("mlp_bias"),
        head_norms=family in ("qwen3", "qwen3_moe"), rope=rope(config), latent=latent,
        experts=experts(config, family), dropout=number(config, "attention_dropout", 0.0, most=1.0),
        std=number(config, "initializer_range", 0.02),
    )  # fmt: skip


def _gpt2(config: Config) -> Shape:
    hidden, heads = config.whole("n_embd"), config.whole("n_head")
    layers = config.whole("n_layer")
    _activation(config, "activation_function", ("gelu_new", "gelu_pytorch_tanh"), "gelu_new")
    for name in ("scale_attn_by_inverse_layer_idx", "add_cross_attention"):
        if config.flag(name):
            raise config.fault(name, "it is not supported", "set it to false")
    rates = {name: number(config, name, 0.1, most=1.0) for name in ("attn_pdrop", "embd_pdrop", "resid_pdrop")}
    if len(set(rates.values())) > 1:
        raise config.fault("attn_pdrop", "all dropouts must be equal", f"set {', '.join(rates)} to one value")
    return Shape(
        "gpt2", config.whole("vocab_size"), hidden, layers, heads, heads, hidden // heads,
        config.whole("n_inner", default=4 * hidden), config.whole("n_positions", "n_ctx", default=1024),
        number(config, "layer_norm_epsilon", 1e-5), config.get("tie_word_embeddings") is not False,
        (None,) * layers, (False,) * layers, True, True, True, dropout=rates["attn_pdrop"],
        std=number(config, "initializer_range", 0.02),
    )  # fmt: skip


def _latent(config: Config) -> Latent:
    whole: Callable[..., int] = config.whole
    return Latent(
        whole("q_lora_rank", default=0), whole("kv_lora_rank"), whole("qk_nope_head_dim"), whole("qk_rope_head_dim"),
        whole("v_head_dim"),
    )  # fmt: skip


def _windows(config: Config, family: str, layers: int) -> tuple[int | None, ...]:
    """Mistral's and Mixtral's window is that of all layers, Qwen's of those from `max_window_layers` on."""
    on = family in ("mistral", "mixtral") or config.flag("use_sliding_window")
    if not on or config.get("sliding_window") is None:
        return (None,) * layers
    if family in ("qwen2_moe", "qwen3_moe"):
        raise config.fault("use_sliding_window", "windows are not supported with Qwen's experts", "set it to false")
    window = config.whole("sliding_window")
    kinds = config.strings("layer_types")
    if kinds:
        if len(kinds) != layers or set(kinds) - {"full_attention", "sliding_attention"}:
            raise config.fault("layer_types", f"it must hold full_attention or sliding_attention for {layers} layers")
        return tuple(window if kind == "sliding_attention" else None for kind in kinds)
    first = 0 if family in ("mistral", "mixtral") else config.whole("max_window_layers", default=28, least=0)
    return tuple(window if layer >= first else None for layer in range(layers))


def _activation(config: Config, name: str, known: tuple[str, ...], default: str) -> None:
    if (config.string(name) or default) not in known:
        raise config.fault(name, f"it must be {known[0]}", "give a model with that activation")


def _check(config: Config, shape: Shape) -> None:
    """Widths must fit one another."""

    def refuse(name: Any, rule: str) -> UserError:
        return config.fault(name, rule, "correct it")

    heads = "n_head" if shape.family == "gpt2" else "num_attention_heads"
    if shape.latent is None and config.get("head_dim") is None and shape.hidden % shape.heads:
        raise refuse(heads, f"it must divide the hidden size {shape.hidden}")
    if shape.heads % shape.kv_heads:
        raise refuse("num_key_value_heads", f"it must divide the {shape.heads} attention heads")
    if (shape.latent.rotary if shape.latent else shape.head) % 2 and shape.family != "gpt2":
        raise refuse("qk_rope_head_dim" if shape.latent else "head_dim", "rotary embeddings need an even width")
