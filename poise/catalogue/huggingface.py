"""Models read from the `config.json` that Hugging Face repositories carry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from poise.catalogue.config import Config
from poise.catalogue.encoders import encoders_of
from poise.catalogue.families import FAMILIES, Family
from poise.catalogue.quantised import checkpoints_of
from poise.catalogue.stacks import STACKS, stacked
from poise.core.model import Linear, Mla, Model, Moe

_KINDS = {
    "full_attention": "full",
    "sliding_attention": "window",
    "chunked_attention": "window",
    "linear_attention": "linear",
}


_DRAFTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
"""Keys that count layers for further tokens: of DeepSeek, GLM, Nemotron and Step; of Qwen3.5; of MiniMax."""


def read_config(path: str | Path) -> Model:
    """Read a model's shape from its `config.json`, or from a folder that holds one; the folder names the model.

    The language model only: vision and audio towers are left out, layers for further tokens (MTP) are counted apart
    (`Model.draft_parameters`). UserError names the file and the key that cannot be
    read.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "config.json"
    config, beside = Config.load(file), file.with_name("hf_quant_config.json")
    if config.text().get("quantization_config") is None and beside.is_file():  # where ModelOpt writes it
        config = config.adding("quantization_config", Config.load(beside).get("quantization"))
    return from_config(config, file.resolve().parent.name, str(path))


def from_keys(keys: Mapping[str, object], name: str, source: str) -> Model:
    """The model that the config keys `keys` describe; errors name it as `name`."""
    return from_config(Config(keys, name), name, source)


def from_config(config: Config, name: str, source: str) -> Model:
    """The model that `config` describes."""
    whole, config = config, config.text()
    kind = config.string("model_type")
    if kind in STACKS:
        model = replace(stacked(config, kind, name, source), fp8_block=_fp8_block(config))
        return _with_more(model, config, whole, name)
    family = FAMILIES.get(kind)
    if family is None:
        known = ", ".join(sorted({**FAMILIES, **STACKS}))
        raise config.fault("model_type", f"known are {known}", "describe others with poise.core.model.Model")
    config = config.renamed(family.names, family.ffn_widths).with_defaults(family.defaults)
    model = _shape(config, family, name, source)
    model = replace(model, extra_parameters=sum(extra(config, model) for extra in family.extras))
    return _with_more(model, config, whole, name)


def _with_more(model: Model, config: Config, whole: Config, name: str) -> Model:
    """The model with its encoders and with what published checkpoints quantise; whole: the file beyond its text."""
    vision, audio = encoders_of(whole, name, model.hidden)
    model = replace(model, vision=vision, audio=audio, draft_layers=config.whole(*_DRAFTS, default=0, least=0))
    try:
        return replace(model, checkpoints=checkpoints_of(config.get("quantization_config"), model, name))
    except (AttributeError, TypeError, ValueError, re.error) as error:
        raise config.fault("quantization_config", f"it cannot be read ({error})") from None


def _shape(config: Config, family: Family, name: str, source: str) -> Model:
    """The model without its extra parameters."""
    layers = config.whole("num_hidden_layers")
    max_context = config.whole("max_position_embeddings")
    window, kinds = _layer_kinds(config, family, layers, max_context)
    moe = _moe(config, family, layers)
    mla = _mla(config)
    heads, kv_heads, head_dim = _heads(config, mla)
    dense = moe is None or moe.layers < layers
    return Model(
        name=name,
        layers=layers,
        hidden=config.whole("hidden_size"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab=config.whole("vocab_size"),
        ffn=config.whole("intermediate_size_mlp", "ffn_dim", "intermediate_size", default=None if dense else 0),
        max_context=max_context,
        gated=family.gated,
        tied=config.flag("tie_word_embeddings"),
        window=window if "window" in kinds else 0,
        window_layers=kinds.count("window"),
        chunked="window" in kinds and family.window == "attention_chunk_size",
        linear_layers=kinds.count("linear"),
        mla=mla,
        moe=moe,
        linear=_linear(config) if "linear" in kinds else None,
        fp8_block=_fp8_block(config),
        source=source,
    )


def _fp8_block(config: Config) -> int:
    """The side of a block of FP8 weights with one scale; 0 where the files hold none."""
    stated = config.get("quantization_config")
    if not isinstance(stated, Mapping) or stated.get("quant_method") != "fp8":
        return 0
    sides = stated.get("weight_block_size")
    return sides[0] if isinstance(sides, list) and sides and isinstance(sides[0], int) else 0


def _heads(config: Config, mla: Mla | None) -> tuple[int, int, int]:
    """Query heads, key-value heads and the width of a head."""
    heads = config.whole("num_attention_heads")
    kv_heads = config.whole("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise config.fault("num_key_value_heads", f"it must divide num_attention_heads, {heads}")
    if mla is not None:
        return heads, kv_heads, mla.nope_dim + mla.rope_dim
    hidden = config.whole("hidden_size")
    if config.get("head_dim") is None and hidden % heads:
        raise config.fault("head_dim", f"it is needed where num_attention_heads, {heads}, does not divide {hidden}")
    return heads, kv_heads, config.whole("head_dim", default=hidden // heads)


def _mla(config: Config) -> Mla | None:
    """Latent attention, where `kv_lora_rank` is set."""
    if config.get("kv_lora_rank") is None:
        return None
    return Mla(
        kv_rank=config.whole("kv_lora_rank"),
        rope_dim=config.whole("qk_rope_head_dim"),
        nope_dim=config.whole("qk_nope_head_dim"),
        value_dim=config.whole("v_head_dim"),
        q_rank=config.whole("q_lora_rank", default=0),
    )


def _moe(config: Config, family: Family, layers: int) -> Moe | None:
    """Mixture-of-experts blocks, where the number of experts is set."""
    experts = config.whole("num_local_experts", "num_experts", "n_routed_experts", default=0, least=0)
    if not experts:
        return None
    active = config.whole("num_experts_per_tok")
    if active > experts:
        raise config.fault("num_experts_per_tok", f"it must not exceed the {experts} experts")
    ffn = config.whole("moe_intermediate_size", "intermediate_size")
    shared = config.whole("n_shared_experts", default=0, least=0)
    shared_ffn = config.whole("shared_expert_intermediate_size", default=0, least=0)
    return Moe(
        experts=experts,
        active=active,
        ffn=ffn,
        layers=_moe_layers(config, layers),
        shared=shared or int(shared_ffn > 0),
        shared_ffn=shared_ffn or (ffn if shared else 0),
        bias=2 * ffn + config.whole("hidden_size") if family.expert_bias else 0,
    )


def _moe_layers(config: Config, layers: int) -> int:
    """How many layers hold experts; the model classes spell the rule in four ways, of which files use one."""
    listed = config.wholes("moe_layers")
    if listed:
        return sum(layer < layers for layer in set(listed))
    first = config.whole("first_k_dense_replace", default=0, least=0)
    frequency = config.whole("moe_layer_freq", default=1)
    step = config.whole("decoder_sparse_step", "interleave_moe_layer_step", default=1)
    dense = config.wholes("mlp_only_layers")
    return sum(
        layer >= first and layer % frequency == 0 and (layer + 1) % step == 0 and layer not in dense
        for layer in range(layers)
    )


def _linear(config: Config) -> Linear:
    """The linear-attention layers of a hybrid model."""
    return Linear(
        key_heads=config.whole("linear_num_key_heads"),
        value_heads=config.whole("linear_num_value_heads"),
        key_dim=config.whole("linear_key_head_dim"),
        value_dim=config.whole("linear_value_head_dim"),
        conv=config.whole("linear_conv_kernel_dim"),
    )


def _layer_kinds(config: Config, family: Family, layers: int, max_context: int) -> tuple[int, list[str]]:
    """Tokens of the window, and `full`, `window` or `linear` for each layer.

    A window that is not set, is switched off or spans the whole context counts as none.
    """
    window = config.whole(family.window, default=0, least=0)
    if config.get("use_sliding_window") is False or window >= max_context:
        window = 0
    kinds = _stated_kinds(config, layers)
    if not kinds and family.pattern == "full" and config.flag("use_sliding_window"):
        raise config.fault("use_sliding_window", "which layers keep a window is not stated", "add layer_types")
    kinds = kinds or _pattern(config, family, layers)
    return window, [kind if window or kind != "window" else "full" for kind in kinds]


def _stated_kinds(config: Config, layers: int) -> list[str]:
    """The kinds that `layer_types` or Llama 4's `no_rope_layers` lists; empty where neither is set."""
    types = config.strings("layer_types")
    for name in types:
        if name not in _KINDS:
            raise config.fault("layer_types", f"{name!r} is none of {', '.join(_KINDS)}", "no cost is known for it")
    kinds = [_KINDS[name] for name in types]
    kinds = kinds or ["window" if rope else "full" for rope in config.wholes("no_rope_layers")]
    if kinds and len(kinds) != layers:
        name = "layer_types" if types else "no_rope_layers"
        raise config.fault(name, f"it must list num_hidden_layers, {layers}, entries, not {len(kinds)}")
    return kinds


def _pattern(config: Config, family: Family, layers: int) -> list[str]:
    """The kinds that the model class gives its layers."""
    match family.pattern:
        case "window":
            return ["window"] * layers
        case "late":
            first = config.whole("max_window_layers", default=layers, least=0)
            return ["window" if layer >= first else "full" for layer in range(layers)]
        case "window-every" | "linear-every":
            other = family.pattern.removesuffix("-every")
            period = config.whole(*family.every, default=family.period)
            return [other if (layer + 1) % period else "full" for layer in range(layers)]
    return ["full"] * layers
