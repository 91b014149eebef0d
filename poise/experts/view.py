"""What a balancer of experts sees, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import UserError
from poise.experts.placement import Counts, ExpertPlacement, in_order


@dataclass(frozen=True, slots=True, eq=False)
class ExpertView:
    """The load of experts as it is known, and the ranks that could hold them. UserError where they do not fit.

    counts: (layers × experts) pairs, as late as their reports are.  ranks: that share each layer.  slots: copies of a
    layer's experts that a rank has room for.  nodes: hosts over which the ranks spread evenly, in order.  groups:
    of consecutive experts, a token's experts being of few groups (1: the router does not limit them).
    flows: (layers − 1 × experts × experts) tokens handed from one layer's expert to the next layer's; None: unknown.
    words: (layers × ids × experts) pairs by the id of the token; None: unknown.
    placed: what is in force; None: experts in order, as engines start.
    moves: the most experts that ranks may fetch in all (None: any number).
    """

    counts: Counts
    ranks: int
    slots: int
    nodes: int = 1
    groups: int = 1
    flows: NDArray[Any] | None = None
    placed: ExpertPlacement | None = None
    moves: int | None = None
    words: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if self.counts.ndim != 2 or not self.counts.size:
            raise UserError("counts: no table of layers and experts; give one row of numbers for each layer")
        wrong = np.argwhere(~(np.isfinite(self.counts) & (self.counts >= 0)))
        if len(wrong):
            layer, expert = wrong[0]
            raise UserError(
                f"counts: expert {expert} of layer {layer} has {self.counts[layer, expert]}; give 0 or more for each"
            )
        if self.ranks < 1 or self.nodes < 1 or self.ranks % self.nodes:
            raise UserError(f"ranks: {self.ranks} do not divide by {self.nodes} nodes; give a multiple of them")
        if self.groups < 1 or self.experts % self.groups:
            raise UserError(f"groups: {self.experts} experts do not divide by {self.groups}; give the model's own")
        if self.ranks * self.slots < self.experts:
            raise UserError(
                f"slots: {self.ranks} ranks of {self.slots} hold {self.ranks * self.slots} copies, and there are "
                f"{self.experts} experts; give {-(-self.experts // self.ranks)} or more"
            )
        if self.placed is not None and self.placed.holds.shape != (self.layers, self.ranks, self.experts):
            raise UserError(
                "placed: the placement in force is of other layers, ranks or experts; give the one of this model"
            )

        if self.words is not None and (self.words.shape[0], self.words.shape[-1]) != self.counts.shape:
            raise UserError(
                f"words: they are of {self.words.shape[0]} layers and {self.words.shape[-1]} experts, and the counts "
                f"of {self.layers} and {self.experts}; give both of the same model"
            )

    @property
    def layers(self) -> int:
        """How many layers have experts."""
        return int(self.counts.shape[0])

    @property
    def experts(self) -> int:
        """How many experts a layer has."""
        return int(self.counts.shape[1])

    def standing(self) -> ExpertPlacement:
        """The placement in force."""
        return self.placed or in_order(self.layers, self.experts, self.ranks, self.slots)


class ExpertBalancer(Protocol):
    """Where the copies of experts live; called before a run, or while it serves, with the load seen so far."""

    def rebalance(self, view: ExpertView) -> ExpertPlacement:
        """A placement with at most `slots` copies on a rank, and at most `moves` of them fetched."""
        ...
