"""Floating-point operations of training, counted as the literature does: a multiplication and an addition are two."""

from __future__ import annotations

from poise.core.model import Model


def layer_weights(model: Model) -> float:
    """Weights of products that a token passes in an average layer: mixer, feed-forward or its active experts."""
    moe = model.moe.layers if model.moe else 0
    sparse = model.moe.active * model.expert_parameters + model.shared_parameters if model.moe else 0
    block = (model.dense_layers * model.ffn_parameters + moe * sparse) / model.layers
    part = model.linear_layers / model.layers
    return (1 - part) * model.attention_parameters + part * model.linear_parameters + block


def scores_width(model: Model) -> int:
    """Values of a score's product and of its weighted sum: what one query and one key cost, all heads together."""
    if model.mla is not None:
        return model.heads * (model.mla.nope_dim + model.mla.rope_dim + model.mla.value_dim)
    return 2 * model.heads * model.head_dim


def forward(model: Model, sequence: int, *, causal: bool = False) -> float:
    """FLOP of the forward of one token: products, both of attention over `sequence` keys, and the head.

    causal counts only the keys that a token may see; the formula of Narayanan et al. (arXiv 2104.04473, eq. 3) and
    most published utilisations count them all.
    """
    seen = (sequence + 1) / 2 if causal else sequence
    span = model.full_layers * seen + model.window_layers * min(seen, model.window)
    return 2.0 * (model.layers * layer_weights(model) + scores_width(model) * span + model.vocab * model.hidden)


def model_flops(model: Model, sequence: int, *, causal: bool = False) -> float:
    """FLOP of forward and backward of one token, nothing recomputed."""
    return 3.0 * forward(model, sequence, causal=causal)


def hardware_flops(model: Model, sequence: int, recompute: str, *, causal: bool = False) -> float:
    """The same with what is computed again: all layers (full), attention's two products (selective) or nothing."""
    again = 0.0
    if recompute == "full":
        again = forward(model, sequence, causal=causal) - 2.0 * model.vocab * model.hidden
    if recompute == "selective":
        again = 2.0 * scores_width(model) * model.full_layers * sequence
    return model_flops(model, sequence, causal=causal) + again


def narayanan(batch: int, sequence: int, layers: int, hidden: int, vocab: int) -> float:
    """96·B·s·l·h²·(1 + s/(6h) + V/(16·l·h)): a step of GPT with all layers recomputed (arXiv 2104.04473, eq. 3)."""
    inner = 1 + sequence / (6 * hidden) + vocab / (16 * layers * hidden)
    return 96.0 * batch * sequence * layers * hidden**2 * inner
