"""`ExpertPlacement`: the copies of each expert on each rank, and the part of its tokens that each rank gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import UserError
from poise.core.experts import Placement

Counts = NDArray[Any]
"""(layers × experts) pairs of a token and an expert that it was sent to."""


@dataclass(frozen=True, slots=True, eq=False)
class ExpertPlacement:
    """Which experts of each layer a rank holds.

    holds: (layers × ranks × experts) copies of an expert on a rank, whole numbers.
    parts: the same shape; of an expert's tokens the part that goes to a rank (None: evenly over its copies).
    UserError where an expert has no copy, or tokens go where there is none.
    """

    holds: NDArray[Any]
    parts: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        missing = np.argwhere(self.holds.sum(axis=1) == 0)
        if len(missing):
            layer, expert = missing[0]
            raise UserError(f"placement: expert {expert} of layer {layer} is on no rank; give each at least one copy")
        if self.parts is not None and ((self.parts > 0) & (self.holds == 0)).any():
            raise UserError("placement: tokens go to a rank that does not hold their expert; give it a copy there")

    @property
    def layers(self) -> int:
        """How many layers have experts."""
        return int(self.holds.shape[0])

    @property
    def ranks(self) -> int:
        """How many ranks share them."""
        return int(self.holds.shape[1])

    @property
    def experts(self) -> int:
        """How many experts a layer has."""
        return int(self.holds.shape[2])

    @property
    def weights(self) -> NDArray[Any]:
        """(layers × ranks × experts) parts of an expert's tokens; over ranks they sum to 1."""
        if self.parts is not None:
            return self.parts
        found: NDArray[Any] = self.holds / self.holds.sum(axis=1, keepdims=True)
        return found

    def loads(self, counts: Counts) -> NDArray[Any]:
        """(layers × ranks) pairs that each rank gets."""
        found: NDArray[Any] = np.einsum("lre,le->lr", self.weights, _fitting(counts, self))
        return found

    def balance(self, counts: Counts) -> NDArray[Any]:
        """Of each layer the mean load of a rank over the largest: 1 at best (EPLB's and SGLang's balancedness)."""
        loads = self.loads(counts)
        largest = loads.max(axis=1)
        found: NDArray[Any] = np.where(largest > 0, loads.mean(axis=1) / np.where(largest > 0, largest, 1.0), 1.0)
        return found

    def fetched(self, before: ExpertPlacement) -> NDArray[Any]:
        """(layers × ranks × experts) True for the experts that a rank must fetch, which it did not hold before."""
        if before.holds.shape != self.holds.shape:
            raise UserError(
                f"placement: {_shape(before)} cannot become {_shape(self)}; give both for the same model and ranks"
            )
        found: NDArray[Any] = (self.holds > 0) & (before.holds == 0)
        return found

    def crossings(self, flows: NDArray[Any]) -> float:
        """The part of tokens that change their rank between two layers.

        flows: (layers − 1 × experts × experts) tokens that one layer's expert handed to the next layer's; tokens of an
        expert with several copies spread as `weights`, independently in each layer.
        """
        weights = self.weights
        stay = np.einsum("lra,lab,lrb->", weights[:-1], flows, weights[1:])
        total = flows.sum()
        return float(1 - stay / total) if total else 0.0

    def physical(self) -> list[list[int]]:
        """The expert in each slot, rank after rank, a list for each layer: engines' physical to logical map.

        UserError where ranks hold unequal numbers, which no engine takes.
        """
        slots = self.holds.sum(axis=2)
        if len(np.unique(slots)) > 1:
            raise UserError(
                f"placement: ranks hold {slots.min()} to {slots.max()} copies of a layer's experts, and engines take "
                "equal numbers; give redundant copies that divide by the ranks"
            )
        experts = np.arange(self.experts)
        return [[int(e) for rank in layer for e in np.repeat(experts, rank)] for layer in self.holds]

    def holders(self) -> Placement:
        """For each layer and expert the ranks that hold it, as engines of a scenario take it."""
        return tuple(
            tuple(tuple(int(rank) for rank in np.repeat(np.arange(self.ranks), column)) for column in layer.T)
            for layer in self.holds
        )


def in_order(layers: int, experts: int, ranks: int, slots: int = 0) -> ExpertPlacement:
    """Slot after slot the next expert, and the first ones again in redundant slots: what engines start with.

    slots: of a rank, 0 for as few as hold all experts. SGLang's `trivial` and vLLM's initial map.
    """
    slots = slots or -(-experts // ranks)
    holds = np.zeros((layers, ranks, experts), dtype=np.int16)
    at = np.arange(ranks * slots)
    for layer in holds:
        np.add.at(layer, (at // slots, at % experts), 1)
    return ExpertPlacement(holds)


def from_physical(slots: Sequence[Sequence[int]], experts: int, ranks: int) -> ExpertPlacement:
    """The placement that a physical to logical map states; UserError where it cannot be one."""
    holds = np.zeros((len(slots), ranks, experts), dtype=np.int16)
    for layer, row in enumerate(slots):
        if len(row) % ranks:
            raise UserError(f"placement: layer {layer} has {len(row)} slots, which do not divide by {ranks} ranks")
        if not all(0 <= each < experts for each in row):
            raise UserError(f"placement: layer {layer} names an expert that is not among 0 to {experts - 1}")
        np.add.at(holds[layer], (np.arange(len(row)) * ranks // len(row), np.asarray(row)), 1)
    return ExpertPlacement(holds)


def _fitting(counts: Counts, placement: ExpertPlacement) -> Counts:
    if counts.shape != (placement.layers, placement.experts):
        raise UserError(
            f"counts: {counts.shape[0]} layers of {counts.shape[-1]} experts, and the placement has "
            f"{_shape(placement)}; give both of the same model"
        )
    return counts


def _shape(placement: ExpertPlacement) -> str:
    return f"{placement.layers} layers of {placement.experts} experts on {placement.ranks} ranks"
