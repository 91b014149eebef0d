"""Model classes with linear attention or state spaces in some layers."""

from __future__ import annotations

from poise.catalogue.config import Config
from poise.catalogue.stacks.parts import experts, grouped, index_of, joined, latent
from poise.core.layer import Layer, Linear, Moe


def delta(config: Config) -> list[Layer]:
    """Kimi-Linear, Kimi-K3 and GLM-5.3-Flash: Kimi Delta Attention, and latent attention in some layers."""
    found = config.section("linear_attn_config")
    if found is None:
        raise config.fault("linear_attn_config", "which layers are linear is needed")
    heads, width = found.whole("num_heads"), found.whole("head_dim")
    gate = found.flag("use_full_rank_gate")
    linear = Linear(heads, heads, width, width, found.whole("short_conv_kernel_size"), "kda", gate)
    indexed = config.get("index_topk") is not None
    full = latent(config, index_of(config) if indexed else None)
    layers, listed = config.whole("num_hidden_layers"), found.wholes("full_attn_layers")
    first = 0 if 0 in found.wholes("kda_layers") else 1
    mixers = [full if at + first in listed else linear for at in range(layers)]
    moe = experts(config, "num_experts_per_token")
    return joined(config, mixers, moe, config.whole("intermediate_size"))


_LETTERS = {"mamba": "M", "moe": "E", "mlp": "-", "attention": "*"}


def nemotron_h(config: Config) -> list[Layer]:
    """Nemotron-H and Nemotron 3: each layer is a mixer or a feed-forward block."""
    pattern = config.string("hybrid_override_pattern")
    pattern = pattern or "".join(_LETTERS.get(each, "?") for each in config.strings("layers_block_type"))
    read = config.whole
    linear = Linear(
        read("n_groups"), read("mamba_num_heads"), read("ssm_state_size"), read("mamba_head_dim"), read("conv_kernel"),
        "mamba2",
    )  # fmt: skip
    kinds = {"M": Layer((linear,)), "*": Layer((grouped(config),)), "-": Layer((), config.whole("intermediate_size"))}
    if "E" in pattern:
        kinds["E"] = Layer((), moe=experts(config))
    if not pattern or set(pattern) - set(kinds):
        raise config.fault("hybrid_override_pattern", "M, E, - and * are needed, one for each layer")
    return [kinds[letter] for letter in pattern]


def jamba(config: Config) -> list[Layer]:
    """Jamba: Mamba layers, with attention and experts at stated periods."""
    hidden = config.whole("hidden_size")
    inner = config.whole("mamba_expand", default=2) * hidden
    linear = Linear(0, inner, config.whole("mamba_d_state"), 1, config.whole("mamba_d_conv"), "mamba1")
    full, ffn = grouped(config), config.whole("intermediate_size")
    moe = Moe(config.whole("num_experts"), config.whole("num_experts_per_tok"), ffn, 1)

    def at(layer: int, name: str) -> bool:
        return layer % config.whole(f"{name}_layer_period") == config.whole(f"{name}_layer_offset", least=0)

    layers = range(config.whole("num_hidden_layers"))
    mixers = [full if at(layer, "attn") else linear for layer in layers]
    return [
        Layer((mixer,), 0, moe) if at(layer, "expert") else Layer((mixer,), ffn)
        for layer, mixer in zip(layers, mixers, strict=True)
    ]


def mamba2(config: Config) -> Linear:
    """The Mamba-2 layer of Falcon-H1 and Granite, whose heads may be as wide as they come out (`auto`)."""
    heads = config.whole("mamba_n_heads")
    inner = config.whole("mamba_d_ssm", default=config.whole("mamba_expand", default=2) * config.whole("hidden_size"))
    width = inner // heads if config.get("mamba_d_head") == "auto" else config.whole("mamba_d_head")
    groups, state = config.whole("mamba_n_groups", default=1), config.whole("mamba_d_state")
    return Linear(groups, heads, state, width, config.whole("mamba_d_conv", default=4), "mamba2")


def falcon_h1(config: Config) -> list[Layer]:
    """Falcon-H1: attention and Mamba-2 side by side in each layer."""
    layer = Layer((grouped(config), mamba2(config)), config.whole("intermediate_size"))
    return [layer] * config.whole("num_hidden_layers")


def granite(config: Config) -> list[Layer]:
    """Granite 4: Mamba-2 and attention by `layer_types`, each with experts and a shared one."""
    full, linear, moe = grouped(config), mamba2(config), experts(config)
    return [Layer((full if kind == "attention" else linear,), moe=moe) for kind in config.strings("layer_types")]
