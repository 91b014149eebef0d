"""A small decoder-only transformer that can be cut anywhere between its attention and feed-forward layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from poise.runtime.models.segment import Segment
from poise.runtime.size import Size, check_stages
from poise.runtime.tensor import TensorPeers, enter, leave


class Embedding(nn.Module):
    """Tokens and positions to vectors."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.token = nn.Embedding(size.vocabulary, size.hidden)
        self.position = nn.Embedding(size.length, size.hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, length) to (batch, length, hidden)."""
        found: Tensor = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        return found


class Attention(nn.Module):
    """Causal self-attention with its norm and residual."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.beside: TensorPeers | None = None
        self.norm = nn.LayerNorm(size.hidden)
        self.qkv = nn.Linear(size.hidden, 3 * size.hidden)
        self.out = nn.Linear(size.hidden, size.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, hidden) to the same."""
        batch, length, _ = x.shape
        parts = self.qkv(enter(self.norm(x), self.beside)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + leave(mixed.transpose(1, 2).reshape(batch, length, -1), self.out, self.beside)

    def share(self, beside: TensorPeers) -> None:
        """Keep this rank's heads alone."""
        self.beside, self.heads = beside, self.heads // beside.parts
        beside.columns(self.qkv, 3)
        beside.rows(self.out)


class FeedForward(nn.Module):
    """Two linear layers around a GELU, with norm and residual."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.beside: TensorPeers | None = None
        self.norm = nn.LayerNorm(size.hidden)
        self.up = nn.Linear(size.hidden, 4 * size.hidden)
        self.down = nn.Linear(4 * size.hidden, size.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, hidden) to the same."""
        return x + leave(functional.gelu(self.up(enter(self.norm(x), self.beside))), self.down, self.beside)

    def share(self, beside: TensorPeers) -> None:
        """Keep this rank's part of the inner width alone."""
        self.beside = beside
        beside.columns(self.up)
        beside.rows(self.down)


class Head(nn.Module):
    """Last norm and output layer."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size.hidden)
        self.out = nn.Linear(size.hidden, size.vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, hidden) to (batch, length, vocabulary)."""
        found: Tensor = self.out(self.norm(x))
        return found


def decoder(
    size: Size, *, seed: int = 0, dtype: torch.dtype = torch.float32, beside: TensorPeers | None = None
) -> list[nn.Module]:  # fmt: skip
    """The modules of a decoder in order, the same weights for the same seed; with `beside` this rank's part of them."""
    size.check()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        middle = [part for _ in range(size.layers) for part in (Attention(size), FeedForward(size))]
        modules: list[nn.Module] = [each.to(dtype) for each in (Embedding(size), *middle, Head(size))]
    if beside is not None:
        for each in middle:
            each.share(beside)
    return modules


def cut(modules: Sequence[nn.Module], stages: int) -> list[nn.Module]:
    """The modules as `stages` stages of equal layers, embedding in the first and head in the last."""
    middle = modules[1:-1]
    check_stages(len(middle) // 2, stages)
    each = len(middle) // stages
    parts = [list(middle[at : at + each]) for at in range(0, len(middle), each)]
    parts[0].insert(0, modules[0])
    parts[-1].append(modules[-1])
    return [nn.Sequential(*part) for part in parts]


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Mean over all tokens."""
    return functional.cross_entropy(logits.flatten(0, -2), target.flatten())


class Row(list[Segment]):
    """Segments that are no module's."""

    def segments(self) -> list[Segment]:
        """Themselves."""
        return self


def segments_of(modules: Sequence[nn.Module]) -> Row:
    """The modules of a decoder as segments."""
    middle = [f"layers.{at // 2}.{('attention', 'mlp')[at % 2]}" for at in range(len(modules) - 2)]
    return Row(Segment(*each) for each in zip(["embed", *middle, "head"], modules, strict=True))
