"""Parts of a transformer layer by name, as matrix products or as light kernels, for models that profiles name."""

from __future__ import annotations

from typing import NamedTuple

from poise.catalogue import model as find_model
from poise.core.errors import UserError


class Widths(NamedTuple):
    """A layer's widths."""

    hidden: int
    heads: int
    kv_heads: int
    width: int
    ffn: int
    vocab: int
    gated: bool = True
    experts: int = 0


PRODUCTS = {
    "qkv_proj": "qkv", "attn_pre_proj": "qkv", "q_proj": "q", "k_proj": "kv", "v_proj": "kv",
    "o_proj": "out", "attn_post_proj": "out", "gate_up_proj": "up", "mlp_up_proj": "up",
    "gate_proj": "half", "up_proj": "half", "down_proj": "down", "mlp_down_proj": "down", "lm_head": "head",
    "expert.w1": "half", "expert.w3": "half", "expert.w2": "down", "gate": "router",
}  # fmt: skip
"""Names of matrix products in profiles."""

LIGHT = {
    "layernorm": "norm", "input_layernorm": "norm", "post_layernorm": "norm", "post_attention_layernorm": "norm",
    "final_layernorm": "norm", "act_fn": "act", "mlp_act": "act", "rotary_emb": "rope", "attn_rope": "rope",
    "rope": "rope", "add": "add", "emb": "embed", "embedding": "embed", "qk_norm": "qk_norm", "sampler": "sampler",
}  # fmt: skip
"""Names of light kernels in profiles."""

EAGER = ("norm", "rope", "act")
"""Light operations that PyTorch's own modules run as several kernels, with all that passes between them."""


def kernel(layer: str, eager: bool) -> str:
    """The light kernel behind a layer's name; `eager` where it is PyTorch's modules."""
    name = LIGHT[layer]
    return f"eager {name}" if eager and name in EAGER else name


def widths(name: str) -> Widths | None:
    """The widths of a model, None for an unknown one."""
    try:
        found = find_model(name)
    except UserError:
        return None
    inner, experts = (found.moe.ffn, found.moe.experts) if found.moe else (found.ffn, 0)
    ffn = found.ffn or inner
    return Widths(found.hidden, found.heads, found.kv_heads, found.head_dim, ffn, found.vocab, found.gated, experts)


def product(layer: str, model: Widths, tp: int) -> tuple[int, int] | None:
    """(n, k) of a part that is a matrix product, its rank of `tp`; None for others. Experts are timed one by one."""
    heads, kv = model.heads * model.width // tp, max(model.kv_heads // tp, 1) * model.width
    ffn = model.ffn // tp
    return {
        "qkv": (heads + 2 * kv, model.hidden),
        "q": (heads, model.hidden),
        "kv": (kv, model.hidden),
        "out": (model.hidden, heads),
        "up": ((2 if model.gated else 1) * ffn, model.hidden),
        "half": (ffn, model.hidden),
        "down": (model.hidden, ffn),
        "head": (model.vocab // tp, model.hidden),
        "router": (model.experts, model.hidden) if model.experts else None,
    }.get(PRODUCTS.get(layer, ""))


def moved(layer: str, model: Widths, tp: int) -> int | None:
    """Bytes that a light kernel moves for each token in 16 bits; None for other parts.

    A norm reads and writes values and residuals, one of heads only its values; an activation reads two halves and
    writes one; a row of the embedding is read and written; a sampler reads its logits in 32 bits.
    """
    rotated = (model.heads + model.kv_heads) * model.width // tp
    return {
        "norm": 8 * model.hidden,
        "act": (6 if model.gated else 4) * (model.ffn // tp),
        "rope": 4 * rotated,
        "add": 6 * model.hidden,
        "embed": 4 * model.hidden,
        "qk_norm": 4 * rotated,
        "sampler": 4 * model.vocab,
    }.get(LIGHT.get(layer, ""))
