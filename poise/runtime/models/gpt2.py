"""GPT-2 (Radford et al., 2019), with the names and the transposed matrices of its published weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from poise.runtime.models.attention import attend, places
from poise.runtime.models.segment import Head, Residual, Segment, run
from poise.runtime.models.shape import Shape
from poise.runtime.tensor import TensorPeers, enter, leave


class Transposed(nn.Module):
    """A linear layer whose weight is (inputs, outputs)."""

    outputs = 1
    """The dimension of the weight."""

    def __init__(self, before: int, behind: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(before, behind).normal_(std=0.02))
        self.bias = nn.Parameter(torch.zeros(behind))

    def forward(self, x: Tensor) -> Tensor:
        """x · weight + bias."""
        return functional.linear(x, self.weight.t(), self.bias)

    def flops(self) -> float:
        """Of a token's forward."""
        return 2.0 * self.weight.numel()


class Gpt2Embed(nn.Module):
    """Tokens and learned positions to vectors."""

    def __init__(self, tokens: nn.Embedding, positions: nn.Embedding, dropout: float) -> None:
        super().__init__()
        self.wte, self.wpe, self.dropout = tokens, positions, dropout

    def forward(self, tokens: Tensor, *, positions: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """(batch, length) to (batch, length, hidden)."""
        summed = self.wte(tokens) + self.wpe(places(tokens, positions))
        return functional.dropout(summed, self.dropout, self.training)

    def flops(self, length: int) -> float:
        """Looking up is not counted."""
        return 0.0


class Gpt2Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.beside: TensorPeers | None = None
        self.c_attn = Transposed(shape.hidden, 3 * shape.hidden)
        self.c_proj = Transposed(shape.hidden, shape.hidden)

    def forward(self, x: Tensor, *, positions: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """(batch, length, hidden) to the same."""
        parts = self.c_attn(enter(x, self.beside)).chunk(3, -1)
        q, k, v = (each.unflatten(-1, (-1, self.shape.head)).transpose(1, 2) for each in parts)
        dropout = self.shape.dropout if self.training else 0.0
        mixed = attend(q, k, v, documents, dropout=dropout)
        return functional.dropout(leave(mixed, self.c_proj, self.beside), self.shape.dropout, self.training)

    def share(self, beside: TensorPeers) -> None:
        """Keep this rank's heads."""
        self.beside = beside
        beside.columns(self.c_attn, 3)
        beside.rows(self.c_proj)

    def flops(self, length: int) -> float:
        """Of a token's forward, in a sequence of so many tokens."""
        return self.c_attn.flops() + self.c_proj.flops() + 2.0 * length * self.shape.hidden


class Gpt2Mlp(nn.Module):
    """Two linear layers around a GELU in its tanh form."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dropout = shape.dropout
        self.beside: TensorPeers | None = None
        self.c_fc = Transposed(shape.hidden, shape.inner)
        self.c_proj = Transposed(shape.inner, shape.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, hidden) to the same."""
        inner = functional.gelu(self.c_fc(enter(x, self.beside)), approximate="tanh")
        return functional.dropout(leave(inner, self.c_proj, self.beside), self.dropout, self.training)

    def share(self, beside: TensorPeers) -> None:
        """Keep this rank's part of the inner width."""
        self.beside = beside
        beside.columns(self.c_fc)
        beside.rows(self.c_proj)

    def flops(self, length: int) -> float:
        """Of a token's forward."""
        return self.c_fc.flops() + self.c_proj.flops()


class Gpt2Layer(nn.Module):
    """A layer, under its published names."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(shape.hidden, eps=shape.epsilon)
        self.attn = Gpt2Attention(shape)
        self.ln_2 = nn.LayerNorm(shape.hidden, eps=shape.epsilon)
        self.mlp = Gpt2Mlp(shape)

    def segments(self, layer: int) -> list[Segment]:
        """Its two segments."""
        return [
            Segment(f"layers.{layer}.attention", Residual(self.ln_1, self.attn)),
            Segment(f"layers.{layer}.mlp", Residual(self.ln_2, self.mlp, alone=True)),
        ]


class Gpt2Body(nn.Module):
    """Embeddings, layers and last norm, under their published names."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.wte = nn.Embedding(shape.vocabulary, shape.hidden)
        self.wpe = nn.Embedding(shape.context, shape.hidden)
        self.h = nn.ModuleList(Gpt2Layer(shape) for _ in range(shape.layers))
        self.ln_f = nn.LayerNorm(shape.hidden, eps=shape.epsilon)


class Gpt2(nn.Module):
    """The model: tokens (batch, length) to logits (batch, length, vocabulary)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.transformer = Gpt2Body(shape)
        self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        if shape.tied:
            self.lm_head.weight = self.transformer.wte.weight

    def segments(self) -> list[Segment]:
        """Embeddings, each layer's attention and feed-forward part, head."""
        of = self.transformer
        layers = [each for at, layer in enumerate(of.h) for each in layer.segments(at)]  # type: ignore[operator]
        embed = Segment("embed", Gpt2Embed(of.wte, of.wpe, self.shape.dropout))
        return [embed, *layers, Segment("head", Head(of.ln_f, self.lm_head))]

    def std(self, name: str) -> float:
        """The deviation of a weight's first values: less by sqrt(2 · layers) behind each branch."""
        return self.shape.std / (2 * self.shape.layers) ** 0.5 if name.endswith("c_proj.weight") else self.shape.std

    def forward(self, tokens: Tensor, *, positions: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """All segments in order."""
        return run(self.segments(), tokens, positions=positions, documents=documents)
