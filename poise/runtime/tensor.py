"""Tensor parallelism inside stages: ranks that share each layer's work, and its weights by columns and by rows.

Megatron-LM (Shoeybi et al., arXiv 1909.08053, section 3): attention is cut by heads, the feed-forward layers and each
expert by their inner width; each passes one sum over the ranks forward and one backward. What all ranks compute, as a
router's weights or norms of heads, and each uses for its own part, has another sum of its gradients (`enter`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from poise.runtime.guard import Guard


@dataclass(frozen=True)
class TensorPeers:
    """The ranks of a stage's tensor group, and this rank's place among them. A `guard` tracks the waits for them."""

    group: dist.ProcessGroup
    guard: Guard | None = None

    @property
    def part(self) -> int:
        """This rank's place."""
        return self.group.rank()

    @property
    def parts(self) -> int:
        """How many there are."""
        return self.group.size()

    def sum(self, x: Tensor) -> Tensor:
        """The sum over all, in place: a collective."""
        if self.guard is not None:
            self.guard.wait(dist.get_global_rank(self.group, (self.part + 1) % self.parts))
        dist.all_reduce(x, group=self.group)
        if self.guard is not None:
            self.guard.go()
        return x

    def cut(self, weight: Tensor, by: int, times: int = 1) -> nn.Parameter:
        """This rank's part of a weight, along a dimension that holds `times` tensors behind one another."""
        pieces = [each.chunk(self.parts, by)[self.part] for each in weight.data.chunk(times, by)]
        own = nn.Parameter(torch.cat(pieces, by))
        own.is_part, own.whole = True, weight.shape  # type: ignore[attr-defined]
        own.part_from = partial(self.cut, by=by, times=times)  # type: ignore[attr-defined]
        return own

    def columns(self, layer: nn.Module, times: int = 1) -> None:
        """Keep this rank's part of a layer's outputs, which are `times` tensors behind one another."""
        layer.weight = self.cut(layer.weight, getattr(layer, "outputs", 0), times)  # type: ignore[arg-type]
        if layer.bias is not None:
            layer.bias = self.cut(layer.bias, 0, times)  # type: ignore[arg-type]

    def rows(self, layer: nn.Module) -> None:
        """Keep this rank's part of a layer's inputs; the bias stays whole."""
        layer.weight = self.cut(layer.weight, 1 - getattr(layer, "outputs", 0))  # type: ignore[arg-type]


def counted(weight: nn.Parameter, beside: TensorPeers | None) -> bool:
    """Whether a weight is this rank's to count: its own part of one, or one that all have and the first counts."""
    return beside is None or beside.part == 0 or getattr(weight, "is_part", False)


def enter(x: Tensor, beside: TensorPeers | None) -> Tensor:
    """The same to all ranks, before what is cut by columns; their gradients are summed."""
    found: Tensor = x if beside is None else _Enter.apply(x, beside)  # type: ignore[no-untyped-call]
    return found


def leave(x: Tensor, layer: nn.Module, beside: TensorPeers | None) -> Tensor:
    """A layer that is cut by rows: the sum over the ranks, and the bias once."""
    if beside is None:
        found: Tensor = layer(x)
        return found
    weight: Any = layer.weight.t() if getattr(layer, "outputs", 0) else layer.weight  # type: ignore[operator]
    summed, bias = total(functional.linear(x, weight), beside), cast(Tensor | None, layer.bias)
    return summed if bias is None else summed + bias


def total(x: Tensor, beside: TensorPeers | None) -> Tensor:
    """The sum of all ranks' terms, whose gradient each of them gets."""
    found: Tensor = x if beside is None else _Leave.apply(x, beside)  # type: ignore[no-untyped-call]
    return found


class _Enter(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, beside: TensorPeers) -> Tensor:
        ctx.beside = beside
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.beside.sum(gradient.contiguous().clone()), None


class _Leave(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, beside: TensorPeers) -> Tensor:
        return beside.sum(x.clone())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None
