"""Parts of layers read from `config.json` keys that several model classes share."""

from __future__ import annotations

from poise.catalogue.config import Config
from poise.core.layer import Attention, Index, Layer, Linear, Mla, Moe


def latent(config: Config, index: Index | None = None) -> Attention:
    """Latent attention, with an output gate where it is stated."""
    heads = config.whole("num_attention_heads")
    mla = Mla(
        kv_rank=config.whole("kv_lora_rank"),
        rope_dim=config.whole("qk_rope_head_dim", default=0, least=0),
        nope_dim=config.whole("qk_nope_head_dim"),
        value_dim=config.whole("v_head_dim"),
        q_rank=config.whole("q_lora_rank", default=0),
    )
    gate = config.flag("mla_use_output_gate")
    return Attention(heads, heads, mla.nope_dim + mla.rope_dim, mla=mla, index=index, gate=gate)


def grouped(config: Config, prefix: str = "", window: int = 0) -> Attention:
    """Grouped heads, from keys that begin with `prefix`."""
    heads = config.whole(f"{prefix}num_attention_heads")
    width = config.whole(f"{prefix}head_dim", "attention_head_dim", default=0, least=0)
    return Attention(
        heads,
        config.whole(f"{prefix}num_key_value_heads", default=heads),
        width or config.whole("hidden_size") // heads,
        config.whole(f"{prefix}v_head_dim", default=0),
        window=window,
    )


def index_of(config: Config, own: bool = True) -> Index:
    """DeepSeek-V3.2's index."""
    return Index(
        config.whole("index_n_heads"),
        config.whole("index_head_dim"),
        config.whole("index_topk"),
        pool=config.whole("index_kpool", default=1),
        own=own,
        q_rank=config.whole("q_lora_rank", default=0),
    )


def experts(config: Config, *names: str) -> Moe:
    """The experts of a layer; `names` are further spellings of how many a token takes."""
    width = config.whole("moe_intermediate_size", "intermediate_size")
    shared = config.whole("n_shared_experts", "num_shared_experts", default=0, least=0)
    stated = config.whole(
        "moe_shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim", default=0, least=0
    )
    return Moe(
        config.whole("num_local_experts", "num_experts", "n_routed_experts"),
        config.whole("num_experts_per_tok", *names),
        width,
        1,
        shared=shared or int(stated > 0),
        shared_ffn=stated or (width if shared else 0),
        latent=config.whole("moe_latent_size", "routed_expert_hidden_size", default=0),
    )


def _blocks(config: Config, moe: Moe | None, ffn: int, layers: int) -> list[tuple[int, Moe | None]]:
    """The feed-forward block of each layer: the inner width of a dense one, or experts."""
    kinds = config.strings("mlp_layer_types")
    frequency = config.get("moe_layer_freq")
    if kinds:
        sparse = [kind == "sparse" for kind in kinds]
    elif isinstance(frequency, list):
        sparse = [bool(each) for each in frequency]
    else:
        first = config.whole("first_k_dense_replace", default=0, least=0)
        sparse = [at >= first for at in range(layers)]
    if len(sparse) != layers:
        name = "mlp_layer_types" if kinds else "moe_layer_freq"
        raise config.fault(name, f"it must list num_hidden_layers, {layers}, entries, not {len(sparse)}")
    return [(0, moe) if each else (ffn, None) for each in sparse]


def joined(config: Config, mixers: list[Attention | Linear], moe: Moe | None, ffn: int) -> list[Layer]:
    """One mixer and one block a layer."""
    blocks = _blocks(config, moe, ffn, len(mixers))
    return [Layer((mixer,), width, each) for mixer, (width, each) in zip(mixers, blocks, strict=True)]
