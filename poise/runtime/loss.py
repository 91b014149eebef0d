"""The loss of a step as the mean over all its tokens, however unevenly microbatches and replicas share them."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

IGNORED = -100
"""The target of a token that does not count."""


class TokenLoss:
    """Cross entropy, summed over the tokens of a microbatch and weighted so that a step's mean is that over tokens.

    A pipeline averages over `parts` microbatches (those of all replicas); with n tokens in the whole step a microbatch
    therefore counts `parts / n` for each of its tokens. `scale` multiplies it (LossScale).
    """

    def __init__(self, parts: int, group: dist.ProcessGroup | None = None) -> None:
        self._parts, self._group = parts, group
        self._weight = 0.0
        self.tokens = 0
        """Of the step, in all replicas."""
        self.scale = 1.0

    def begin(self, target: Tensor) -> None:
        """Count the tokens of a step from this replica's targets: a collective of the replicas, given as `group`."""
        count = (target != IGNORED).sum().to(torch.float64)
        if self._group is not None:
            dist.all_reduce(count, group=self._group)
        self.tokens = int(count.item())
        self._weight = self._parts / max(1, self.tokens)

    def __call__(self, logits: Tensor, target: Tensor) -> Tensor:
        """The microbatch's part, in float32 at least."""
        wide = logits.flatten(0, -2).to(torch.promote_types(logits.dtype, torch.float32))
        total = functional.cross_entropy(wide, target.flatten(), ignore_index=IGNORED, reduction="sum")
        return total * (self._weight * self.scale)
