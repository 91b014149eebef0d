"""Weights that are in several stages, as an embedding that is also the head: the copies of a rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from poise.runtime.models.cut import Tie


class Ties:
    """The copies of tied weights in this rank's `modules`, by stage.

    The Program sums their gradients (`poise.program.passes.ties`); equal optimizers then keep the copies equal.
    """

    def __init__(self, ties: Sequence[Tie], modules: Mapping[int, nn.Module]) -> None:
        self.ties = ties
        self._copies: list[dict[int, nn.Parameter]] = [
            {stage: modules[stage].get_parameter(local) for stage, local in tie.places.items() if stage in modules}
            for tie in ties
        ]
        self.all = frozenset(id(weight) for copies in self._copies for weight in copies.values())
        """The ids of all copies here."""
        self.repeated = frozenset(
            id(weight)
            for tie, copies in zip(ties, self._copies, strict=True)
            for stage, weight in copies.items()
            if stage != next(iter(tie.places))
        )
        """Those that a norm over all weights must not count again."""

    def stages(self, number: int) -> list[int]:
        """The stages here that have a copy of a weight."""
        return list(self._copies[number])

    def gradient(self, number: int) -> Tensor:
        """The gradient of all copies here, from then on that of the first one."""
        first, *rest = self._copies[number].values()
        if first.grad is None:
            first.grad = torch.zeros_like(first)
        for copy in rest:
            if copy.grad is not None:
                first.grad += copy.grad
                copy.grad = None
        return first.grad

    def bytes(self, number: int) -> float:
        """Of a weight's gradient; 0 where no copy is here."""
        return max((each.numel() * float(each.element_size()) for each in self._copies[number].values()), default=0.0)

    def spread(self, number: int) -> None:
        """Give all copies here the gradient of the first."""
        total = self.gradient(number)
        for copy in list(self._copies[number].values())[1:]:
            copy.grad = total.clone()
