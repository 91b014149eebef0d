"""What a model offers to be trained in a pipeline: `segments()`, an ordered list of its parts.

The first takes the inputs, each of the others what the one before returns; all take the same keyword inputs of a
microbatch, as `positions` and `documents`. Segments may share modules and weights with the model and one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn


class Segment(NamedTuple):
    """A part that is never cut."""

    name: str
    module: nn.Module


@runtime_checkable
class Segmented(Protocol):
    """A model that can be cut into stages."""

    def segments(self) -> Sequence[Segment]:
        """Its parts in order."""
        ...


class Embed(nn.Module):
    """Tokens to vectors."""

    def __init__(self, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens

    def forward(self, tokens: Tensor, **shared: Tensor | None) -> Tensor:
        """(batch, length) to (batch, length, hidden)."""
        found: Tensor = self.tokens(tokens)
        return found

    def flops(self, length: int) -> float:
        """Looking up is not counted."""
        return 0.0


class Residual(nn.Module):
    """x + inner(norm(x)); `alone` where the inner module takes no keyword inputs."""

    def __init__(self, norm: nn.Module, inner: nn.Module, *, alone: bool = False) -> None:
        super().__init__()
        self.norm, self.inner, self.alone = norm, inner, alone

    def forward(self, x: Tensor, **shared: Tensor | None) -> Tensor:
        """(batch, length, hidden) to the same."""
        found: Tensor = x + (self.inner(self.norm(x)) if self.alone else self.inner(self.norm(x), **shared))
        return found

    def flops(self, length: int) -> float:
        """Those of the inner module."""
        return cost(self.inner, length)


class Head(nn.Module):
    """Last norm and output layer."""

    def __init__(self, norm: nn.Module, out: nn.Linear) -> None:
        super().__init__()
        self.norm, self.out = norm, out

    def forward(self, x: Tensor, **shared: Tensor | None) -> Tensor:
        """(batch, length, hidden) to (batch, length, vocabulary)."""
        found: Tensor = self.out(self.norm(x))
        return found

    def flops(self, length: int) -> float:
        """Of a token's forward."""
        return 2.0 * self.out.weight.numel()


def cost(module: Any, length: int) -> float:
    """The FLOPs of a token's forward in a sequence of `length`: `flops(length)`, or 2 for each weight."""
    if hasattr(module, "flops"):
        return float(module.flops(length))
    weights: int = sum(weight.numel() for weight in module.parameters())
    return 2.0 * weights


def run(segments: Sequence[Segment], inputs: Tensor, **shared: Tensor | None) -> Tensor:
    """All segments in one process."""
    for segment in segments:
        inputs = segment.module(inputs, **shared)
    return inputs
