"""Root mean square norm (Zhang and Sennrich, arXiv 1910.07467)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from poise.runtime.tensor import TensorPeers, enter


def wide(x: Tensor) -> torch.dtype:
    """The type for what must not lose digits: that of `x`, float32 at least."""
    return torch.promote_types(x.dtype, torch.float32)


class RmsNorm(nn.Module):
    """x / sqrt(mean(x²) + epsilon) · weight, over the last dimension.

    beside: where ranks share heads, those that apply the same weight to other heads; its gradients are summed.
    """

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon
        self.beside: TensorPeers | None = None

    def forward(self, x: Tensor) -> Tensor:
        """The same shape and type."""
        found = x.to(wide(x))
        found = found * torch.rsqrt(found.square().mean(-1, keepdim=True) + self.epsilon)
        return enter(self.weight, self.beside) * found.to(x.dtype)
