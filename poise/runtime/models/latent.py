"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values from one compressed vector.

In training the compressed vectors are expanded to full keys and values of every head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from poise.runtime.models.attention import attend, places
from poise.runtime.models.norm import RmsNorm
from poise.runtime.models.rope import amplitude, angles, frequencies, rotate, sharpening
from poise.runtime.models.shape import Shape
from poise.runtime.tensor import TensorPeers, enter, leave

EPSILON = 1e-6
"""Of the norms of compressed vectors: DeepSeek's models leave their class's default, whatever `rms_norm_eps`."""


class LatentAttention(nn.Module):
    """The attention of DeepSeek-V2 and V2-Lite, with or without compressed queries."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        assert shape.latent is not None
        self.shape, self.latent, self.window = shape, shape.latent, shape.windows[layer]
        self.heads = shape.heads
        self.beside: TensorPeers | None = None
        of, hidden, bias = shape.latent, shape.hidden, shape.qkv_bias
        if of.q_rank:
            self.q_a_proj = nn.Linear(hidden, of.q_rank, bias=bias)
            self.q_a_layernorm = RmsNorm(of.q_rank, EPSILON)
            self.q_b_proj = nn.Linear(of.q_rank, shape.heads * shape.head, bias=False)
        else:
            self.q_proj = nn.Linear(hidden, shape.heads * shape.head, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(hidden, of.kv_rank + of.rotary, bias=bias)
        self.kv_a_layernorm = RmsNorm(of.kv_rank, EPSILON)
        self.kv_b_proj = nn.Linear(of.kv_rank, shape.heads * (of.plain + of.value), bias=False)
        self.o_proj = nn.Linear(shape.heads * of.value, hidden, bias=shape.out_bias)
        self.turns = torch.tensor(frequencies(shape.rope, of.rotary), dtype=torch.float64, device="cpu")
        self.scale = shape.head**-0.5 * sharpening(shape.rope)

    def forward(self, x: Tensor, *, positions: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """(batch, length, hidden) to the same."""
        of, heads = self.latent, self.heads
        q = self._queries(x).view(*x.shape[:2], heads, -1).transpose(1, 2)
        compressed, key = self.kv_a_proj_with_mqa(x).split([of.kv_rank, of.rotary], -1)
        common = enter(torch.cat((self.kv_a_layernorm(compressed), key), -1), self.beside)
        compressed, key = torch.split(common, [of.kv_rank, of.rotary], -1)
        pairs = self.kv_b_proj(compressed).unflatten(-1, (heads, -1)).transpose(1, 2)
        plain, v = pairs.split([of.plain, of.value], -1)
        turned = angles(places(x, positions), self.turns, amplitude(self.shape.rope), q)
        q = torch.cat((q[..., : of.plain], rotate(q[..., of.plain :], *turned, paired=True)), -1)
        key = rotate(key[:, None], *turned, paired=True).expand(-1, heads, -1, -1)
        dropout = self.shape.dropout if self.training else 0.0
        mixed = attend(
            q, torch.cat((plain, key), -1), v, documents, window=self.window, scale=self.scale, dropout=dropout
        )
        return leave(mixed, self.o_proj, self.beside)

    def share(self, beside: TensorPeers) -> None:
        """Keep this rank's heads; compressed vectors, and the key that all heads share, are computed by each rank."""
        self.beside, self.heads = beside, self.heads // beside.parts
        beside.columns(self.q_b_proj if self.latent.q_rank else self.q_proj)
        beside.columns(self.kv_b_proj)
        beside.rows(self.o_proj)

    def flops(self, length: int) -> float:
        """Of a token's forward, in a sequence of so many tokens."""
        weights = sum(each.weight.numel() for each in self.modules() if isinstance(each, nn.Linear))
        return 2 * weights + length * self.shape.heads * (self.shape.head + self.latent.value)

    def _queries(self, x: Tensor) -> Tensor:
        if self.latent.q_rank:
            x = self.q_a_layernorm(self.q_a_proj(x))
        found: Tensor = (self.q_b_proj if self.latent.q_rank else self.q_proj)(enter(x, self.beside))
        return found
