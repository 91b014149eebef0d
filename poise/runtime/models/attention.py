"""Causal attention: the mask of documents and windows, and grouped queries (Ainslie et al., arXiv 2305.13245)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from poise.runtime.models.norm import RmsNorm
from poise.runtime.models.rope import amplitude, angles, frequencies, rotate
from poise.runtime.models.shape import Shape
from poise.runtime.tensor import TensorPeers, enter, leave


def places(x: Tensor, positions: Tensor | None) -> Tensor:
    """The positions (batch, length) of `x` (batch, length, …): 0, 1, 2, … where none are given."""
    return torch.arange(x.shape[1], device=x.device)[None] if positions is None else positions


def visible(length: int, documents: Tensor | None, window: int | None, device: torch.device) -> Tensor | None:
    """Which token sees which, (batch or 1, 1, length, length); None: all before it.

    A token sees those before it, in its own document, and at most `window - 1` tokens back.
    """
    if documents is None and (window is None or window >= length):
        return None
    at = torch.arange(length, device=device)
    back = at[:, None] - at[None]
    seen = (back >= 0) if window is None else (back >= 0) & (back < window)
    seen = seen[None, None]
    return seen if documents is None else seen & (documents[:, None, :, None] == documents[:, None, None, :])


def attend(
    q: Tensor, k: Tensor, v: Tensor, documents: Tensor | None, *, window: int | None = None,
    scale: float | None = None, dropout: float = 0.0,
) -> Tensor:  # fmt: skip
    """Attention of (batch, heads, length, width); (batch, length, heads · width) comes out."""
    mask = visible(q.shape[2], documents, window, q.device)
    mixed = functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=mask is None, scale=scale, dropout_p=dropout,
        enable_gqa=q.shape[1] != k.shape[1],
    )  # fmt: skip
    return mixed.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.shape, self.window = shape, shape.windows[layer]
        self.beside: TensorPeers | None = None
        hidden, q, kv = shape.hidden, shape.heads * shape.head, shape.kv_heads * shape.head
        self.q_proj = nn.Linear(hidden, q, bias=shape.qkv_bias)
        self.k_proj = nn.Linear(hidden, kv, bias=shape.qkv_bias)
        self.v_proj = nn.Linear(hidden, kv, bias=shape.qkv_bias)
        self.o_proj = nn.Linear(q, hidden, bias=shape.out_bias)
        self.q_norm: nn.Module = RmsNorm(shape.head, shape.epsilon) if shape.head_norms else nn.Identity()
        self.k_norm: nn.Module = RmsNorm(shape.head, shape.epsilon) if shape.head_norms else nn.Identity()
        self.turns = torch.tensor(frequencies(shape.rope, shape.head), dtype=torch.float64, device="cpu")

    def forward(self, x: Tensor, *, positions: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """(batch, length, hidden) to the same."""
        x = enter(x, self.beside)
        q, k, v = (each(x).unflatten(-1, (-1, self.shape.head)) for each in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = self.q_norm(q).transpose(1, 2), self.k_norm(k).transpose(1, 2), v.transpose(1, 2)
        turned = angles(places(x, positions), self.turns, amplitude(self.shape.rope), q)
        dropout = self.shape.dropout if self.training else 0.0
        mixed = attend(rotate(q, *turned), rotate(k, *turned), v, documents, window=self.window, dropout=dropout)
        return leave(mixed, self.o_proj, self.beside)

    def share(self, beside: TensorPeers) -> None:
        """Keep this rank's heads."""
        self.beside = beside
        for each in (self.q_proj, self.k_proj, self.v_proj):
            beside.columns(each)
        beside.rows(self.o_proj)
        for norm in (self.q_norm, self.k_norm):
            if isinstance(norm, RmsNorm):
                norm.beside = beside

    def flops(self, length: int) -> float:
        """Of a token's forward, in a sequence of so many tokens."""
        shape = self.shape
        seen = min(length, self.window or length) / 2
        weights = shape.hidden * shape.head * (2 * shape.heads + 2 * shape.kv_heads)
        return 2 * weights + 4 * seen * shape.heads * shape.head
