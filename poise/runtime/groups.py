"""Parameter groups: which weights decay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn


def groups(weights: Iterable[nn.Parameter], decay: float) -> list[dict[str, Any]]:
    """Matrices with weight decay `decay`, vectors (norms and biases) without; no group is empty."""
    every = list(weights)
    matrices = [weight for weight in every if weight.dim() > 1]
    vectors = [weight for weight in every if weight.dim() < 2]
    made = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    return [group for group in made if group["params"]]
