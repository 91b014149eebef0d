"""Arithmetic intensity of attention and experts: on which side of a device's ridge a decode step lies.

Yun et al., "The New LLM Bottleneck" (arXiv 2507.15465), sections 3 and 4. Intensities are operations per byte read; a
device's ridge is its peak over its bandwidth. Latent attention has two paths, by phase: absorbed, where queries are led
into the latent space (decode), and expanded, where keys and values are made from latents again (prefill).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from poise.core.errors import UserError
from poise.core.model import Model
from poise.core.spec import Device

Path = Literal["absorbed", "expanded"]


class Attention(NamedTuple):
    """Operations and bytes of attention."""

    operations: float
    read: float


def ridge(device: Device) -> float:
    """Operations per byte at which the BF16 peak and the bandwidth of a device take equally long."""
    return device.bf16_flops / device.memory_bw


def decode_attention(model: Model, path: Path = "absorbed", size: float = 2.0) -> Attention:
    """Operations and bytes of one decode for each token of context in one layer; `size` is bytes per cached value.

    Grouped heads: 4·heads·head_dim over 2·kv_heads·head_dim values, so heads/kv_heads operations per byte of BF16.
    Latents, absorbed: 2·heads·(2·kv_rank + rope) over kv_rank + rope values.  Expanded: each step makes keys and values
    of every head again, 2·kv_rank·heads·(nope + value), and then reads them from memory.
    """
    if model.mla is None:
        if path == "expanded":
            raise UserError(f"{model.name} has no latents to expand; take the absorbed path, which is its only one")
        return Attention(4.0 * model.heads * model.head_dim, 2 * model.kv_heads * model.head_dim * size)
    mla = model.mla
    if path == "absorbed":
        return Attention(2.0 * model.heads * (2 * mla.kv_rank + mla.rope_dim), (mla.kv_rank + mla.rope_dim) * size)
    made = model.heads * (mla.nope_dim + mla.value_dim)
    operations = 2.0 * mla.kv_rank * made + 2.0 * model.heads * (mla.nope_dim + mla.rope_dim + mla.value_dim)
    return Attention(operations, made * size + (mla.kv_rank + mla.rope_dim) * size)


def decode_intensity(model: Model, path: Path = "absorbed", size: float = 2.0) -> float:
    """Operations per byte of decode attention over a long context."""
    operations, read = decode_attention(model, path, size)
    return operations / read


def decode_s(model: Model, device: Device, context: int, path: Path = "absorbed", size: float = 2.0) -> float:
    """Seconds of one request's decode attention in one layer at the roofline: the larger of arithmetic and bytes."""
    operations, read = decode_attention(model, path, size)
    return context * max(operations / device.bf16_flops, read / device.memory_bw)


def expert_intensity(model: Model, tokens: float, size: float = 2.0) -> float:
    """Operations per byte of weights of one routed expert, when `tokens` are spread evenly: tokens·active/experts."""
    if model.moe is None:
        raise UserError(f"{model.name} has no experts; its feed-forward intensity is that of its tokens")
    return 2.0 * tokens * model.moe.active / model.moe.experts / size


def expert_knee(model: Model, device: Device, size: float = 2.0) -> float:
    """Tokens in a step from which routed experts are bound by arithmetic: ridge·experts/active for BF16."""
    return ridge(device) / expert_intensity(model, 1.0, size)
