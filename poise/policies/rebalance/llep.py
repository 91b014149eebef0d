"""LLEP: experts of overloaded ranks spill their excess tokens, and their weights with them, to the least loaded.

Least-Loaded Expert Parallelism, Salesforce AI Research (2026); code: SalesforceAIResearch/LeastLoadedEP. Each step all
ranks plan alike from gathered counts. A rank may take `alpha` times the mean load. Experts go in order of their load:
each stays with its native rank as far as that has room beside its native experts that are still to come; the rest
goes to the rank with the least load, native experts to come included, in chunks of at least `chunk` tokens, and where
none has room to the least loaded. Weights are sent along, and their gradients back.

Parameters: `alpha` (1.1; the published benchmark has 1.0). `chunk` (1,024 tokens, pairs of a token and the expert):
what a spilled product must have to be worth its weights. `least` (1.3): the largest load over the mean from which it
is done at all.

The native ranks are those of the placement in force. `slots` do not bind: spilled weights live for a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poise.experts import ExpertPlacement, ExpertView

if TYPE_CHECKING:
    from numpy.typing import NDArray


_NOTHING = 1e-9
"""A part of a rank's room that is a rounding error, and no tokens."""


@dataclass(frozen=True, slots=True)
class Llep:
    """Spill what overloads a rank. See the module for the rule and its parameters."""

    alpha: float = 1.1
    chunk: float = 1024.0
    least: float = 1.3

    def __post_init__(self) -> None:
        if self.alpha < 1:
            raise ValueError(f"alpha {self.alpha} leaves ranks less room than the mean load; give 1 or more")

    def rebalance(self, view: ExpertView) -> ExpertPlacement:
        """The native placement with copies where tokens spill to, and the part of its tokens that each copy gets."""
        import numpy as np

        native = view.standing()
        balance = native.balance(view.counts)
        parts = native.weights.astype(float).copy()
        for layer in np.flatnonzero(1 / balance > self.least):
            parts[layer] = self._spill(view.counts[layer], native.holds[layer].argmax(axis=0), view.ranks)
        return ExpertPlacement(np.maximum(native.holds, parts > 0), parts)

    def _spill(self, counts: NDArray[Any], native: NDArray[Any], ranks: int) -> NDArray[Any]:
        """(ranks × experts) parts of one layer."""
        import numpy as np

        room = self.alpha * counts.sum() / ranks
        taken, coming = np.zeros(ranks), np.bincount(native, weights=counts, minlength=ranks)
        given = np.zeros((ranks, len(counts)))
        for expert in np.argsort(-counts, kind="stable"):
            home, rest = native[expert], float(counts[expert])
            coming[home] -= rest
            kept = min(rest, max(room - taken[home] - coming[home], 0.0))
            if rest - kept < _NOTHING * room:
                kept = rest
            given[home, expert] += kept
            taken[home] += kept
            rest -= kept
            while rest > _NOTHING * room:
                rank, chunk = self._target(taken + coming, home, rest, room)
                given[rank, expert] += chunk
                taken[rank] += chunk
                rest -= chunk
        total = np.where(counts > 0, counts, 1.0)
        parts: NDArray[Any] = given / total
        parts[native[counts == 0], np.flatnonzero(counts == 0)] = 1.0
        return parts

    def _target(self, load: NDArray[Any], home: int, rest: float, room: float) -> tuple[int, float]:
        """The rank that takes a chunk of what is left, and its tokens."""
        import numpy as np

        others = load.copy()
        others[home] = np.inf
        for rank in np.argsort(others, kind="stable")[: len(load) - 1]:
            chunk = min(rest, room - load[rank])
            if chunk > 0 and (chunk >= self.chunk or chunk == rest):
                return int(rank), chunk
        return int(load.argmin()), rest
