"""Steps of the optimizer before the norm of all gradients is known, and their correction where it turns out different.

Optimizer post-validation (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 4): instead of waiting for
each other, ranks pass on the sum of squares of those before, clip by that and step. The total is sent back from the
last rank while the next step begins; a rank whose factor was another one takes its step back and does it again. The
paper inverts the update in place; here the values of before are kept until then, so that correction is exact for any
optimizer.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from poise.runtime.norm import factor, scale, squares
from poise.runtime.pipeline import Pipeline
from poise.runtime.tensor import TensorPeers


class LateNorm:
    """The steps of this rank's `optimizers`, with gradients clipped at a norm of `most` over all ranks.

    Gradients that are not finite anywhere cancel the step everywhere. Call `step` behind a step of the pipeline and
    `settle` before the next one, before weights are read, and at the end. `skip` are ids of weights that are counted
    elsewhere.
    """

    def __init__(
        self, pipeline: Pipeline, parts: Mapping[str, nn.Module], optimizers: Mapping[str, Optimizer], most: float,
        beside: TensorPeers | None = None, skip: Container[int] = (),
    ) -> None:  # fmt: skip
        self._pipeline, self._beside, self._skip = pipeline, beside, skip
        self._weights = [weight for part in parts.values() for weight in part.parameters() if weight.requires_grad]
        self._optimizers = list(optimizers.values())
        self._most = most
        self._before: tuple[list[Tensor], list[dict[str, Any]], list[Tensor | None]] | None = None
        self._used = 0.0
        self._total: Tensor | None = None
        self.corrected = 0
        """How often a step was taken back."""

    def step(self) -> None:
        """Clip by what the ranks up to this one have, and step."""
        rank, last = self._pipeline.rank, self._pipeline.group.size() - 1
        wire = self._pipeline.wire
        total = squares(self._pipeline, self._beside, self._skip)[0]
        if rank:
            total = total + wire.receive([total], rank - 1).wait()[0]
        if rank < last:
            wire.send((total,), rank + 1)
        self._total = total
        self._used = _by(total, self._most)
        self._before = None if rank == last else self._kept()
        self._take(self._used)

    def settle(self) -> bool:
        """Learn the norm over all ranks; whether the step had to be taken back."""
        if self._total is None:
            return False
        rank, last = self._pipeline.rank, self._pipeline.group.size() - 1
        wire, total = self._pipeline.wire, self._total
        if rank < last:
            total = wire.receive([total], rank + 1).wait()[0]
        if rank:
            wire.send((total,), rank - 1)
        right = _by(total, self._most)
        wrong = right != self._used
        if wrong:
            self._back()
            self._take(right)
            self.corrected += 1
        self._total = self._before = None
        wire.finish()
        return wrong

    def _take(self, by: float) -> None:
        if by == 0.0:
            return
        scale(self._weights, by)
        for optimizer in self._optimizers:
            optimizer.step()

    def _kept(self) -> tuple[list[Tensor], list[dict[str, Any]], list[Tensor | None]]:
        """Weights, optimizers and gradients as they are."""
        return (
            [weight.detach().clone() for weight in self._weights],
            [copy.deepcopy(optimizer.state_dict()) for optimizer in self._optimizers],
            [None if weight.grad is None else weight.grad.clone() for weight in self._weights],
        )

    @torch.no_grad()
    def _back(self) -> None:
        assert self._before is not None
        weights, states, gradients = self._before
        for weight, value, gradient in zip(self._weights, weights, gradients, strict=True):
            weight.copy_(value)
            weight.grad = gradient
        for optimizer, state in zip(self._optimizers, states, strict=True):
            optimizer.load_state_dict(state)


def _by(total: Tensor, most: float) -> float:
    """The factor on the gradients; 0 where they are not finite."""
    norm = total.sqrt()
    return factor(norm.item(), most) if bool(torch.isfinite(norm)) else 0.0
