"""Model classes whose attentions differ: sparse, compressed, of several shapes, or absent in some layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from poise.catalogue.config import Config
from poise.catalogue.stacks.parts import experts, grouped, index_of, joined, latent
from poise.core.layer import Attention, Index, Layer, Linear, Moe


def sparse_latent(config: Config) -> list[Layer]:
    """DeepSeek-V3.2 and GLM-5: latent attention that reads the best tokens; `shared` layers take an earlier choice."""
    layers = config.whole("num_hidden_layers")
    kinds = config.strings("indexer_types") or ["full"] * layers
    if len(kinds) != layers:
        raise config.fault("indexer_types", f"it must list num_hidden_layers, {layers}, entries, not {len(kinds)}")
    mixers: list[Attention | Linear] = [latent(config, index_of(config, kind != "shared")) for kind in kinds]
    return joined(config, mixers, experts(config), config.whole("intermediate_size"))


def compressed(config: Config) -> list[Layer]:
    """DeepSeek-V4: a window, and beside it an entry for each `ratio` tokens, of which the best are read at ratio 4."""
    layers, window = config.whole("num_hidden_layers"), config.whole("sliding_window")
    ratios = config.wholes("compress_ratios")
    if len(ratios) < layers:
        raise config.fault("compress_ratios", f"it must list at least num_hidden_layers, {layers}, entries")
    rank = config.whole("q_lora_rank")
    plain = Attention(
        config.whole("num_attention_heads"),
        config.whole("num_key_value_heads"),
        config.whole("head_dim"),
        window=window,
        same=True,
        q_rank=rank,
        o_groups=config.whole("o_groups"),
        o_rank=config.whole("o_lora_rank"),
    )
    moe, index = experts(config), index_of(config)
    made = [replace(plain, ratio=ratio, index=index if ratio == 4 else None) for ratio in ratios[:layers]]
    return [Layer((each,), moe=moe) for each in made]


def block_sparse(config: Config) -> list[Layer]:
    """MiniMax-M3: grouped heads that read the best blocks of tokens, beside some layers that read everything."""
    found = config.section("sparse_attention_config")
    if found is None:
        raise config.fault("sparse_attention_config", "which layers are sparse is needed")
    index = Index(
        found.whole("sparse_num_index_heads"),
        found.whole("sparse_index_dim"),
        found.whole("sparse_topk_blocks"),
        unit=found.whole("sparse_block_size"),
        local=found.whole("sparse_local_block") + found.whole("sparse_init_block", default=0, least=0),
        bits=16,
    )
    full = grouped(config)
    chosen = found.wholes("sparse_attention_freq")
    mixers: list[Attention | Linear] = [replace(full, index=index) if each else full for each in chosen]
    return joined(config, mixers, experts(config), config.whole("dense_intermediate_size"))


def two_shapes(config: Config) -> list[Layer]:
    """MiMo-V2-Flash: windowed layers have heads of their own."""
    window = grouped(config, "swa_", config.whole("sliding_window"))
    full = grouped(config)
    mixers: list[Attention | Linear] = [window if each else full for each in config.wholes("hybrid_layer_pattern")]
    return joined(config, mixers, experts(config), config.whole("intermediate_size"))


def gemma4(config: Config) -> list[Layer]:
    """Gemma 4: wide full layers whose keys and values are one projection; experts beside the dense block count it as a
    shared one."""
    window = grouped(config, window=config.whole("sliding_window"))
    full = replace(
        window,
        window=0,
        kv_heads=config.whole("num_global_key_value_heads", default=window.kv_heads),
        head_dim=config.whole("global_head_dim", default=window.head_dim),
        one_projection=config.flag("attention_k_eq_v"),
    )
    ffn, moe = config.whole("intermediate_size"), None
    if config.flag("enable_moe_block"):
        active, width = config.whole("top_k_experts"), config.whole("moe_intermediate_size")
        moe, ffn = Moe(config.whole("num_experts"), active, width, 1, 1, ffn), 0
    kinds = config.strings("layer_types")
    return [Layer((full if kind == "full_attention" else window,), ffn, moe) for kind in kinds]


def searched(config: Config) -> list[Layer]:
    """Llama-Nemotron by architecture search: each layer states its heads and its width, or that it has none."""
    heads, hidden = config.whole("num_attention_heads"), config.whole("hidden_size")
    listed = config.get("block_configs")
    if not isinstance(listed, list) or not all(isinstance(each, Mapping) for each in listed):
        raise config.fault("block_configs", "a list of layers is needed")
    found = []
    for each in listed:
        attention, ffn = each["attention"], each["ffn"]
        group, wide = attention.get("n_heads_in_group"), ffn.get("ffn_mult")
        if attention.get("replace_with_linear") or ffn.get("replace_with_linear"):
            raise config.fault("block_configs", "a layer replaced by a matrix is not known", "no cost is known for it")
        mixer = (Attention(heads, heads // group, hidden // heads),) if group else ()
        found.append(Layer(mixer, 256 * ceil(int(2 * wide * hidden / 3) / 256) if wide else 0))
    return found
