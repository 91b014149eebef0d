"""Sigma-MoE-Tiny's progressive sparsification: the first layers activate more experts until late in training.

Microsoft (2512.16248). Where one of 96 experts is active, the loss of balance fails in the first layers: scores
become even, and choices do not. So those layers start with more, and switch to the target's number near the end.

Parameters: `first` (8, 8, 6, 6, 4, 4, 2, 2): experts of a token in the first layers; as noted of the report, not from
its code. `target` (1): in all others, and in all at the end. `until` (0.9): the part of training that has more.
"""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Sparsification:
    """Experts of a token, by layer and progress."""

    first: tuple[int, ...] = (8, 8, 6, 6, 4, 4, 2, 2)
    target: int = 1
    until: float = 0.9

    def k(self, layer: int, progress: float) -> int:
        """How many experts a token has. layer: from 0.  progress: the part of training that is over, 0 to 1."""
        if not (layer >= 0 and 0 <= progress <= 1):
            raise UserError(f"progress: {progress} at layer {layer}; give a layer from 0 and a progress of 0 to 1")
        return self.first[layer] if layer < len(self.first) and progress < self.until else self.target

    def active(self, layers: int, progress: float) -> float:
        """The mean of k over layers: what a token computes in units of an expert and layer."""
        return sum(self.k(layer, progress) for layer in range(layers)) / layers
