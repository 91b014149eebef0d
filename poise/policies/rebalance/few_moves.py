"""From the placement in force, the fetches that gain most: a budget of moves, and loads that are known too late.

Our own. Each change gives an expert of a layer's most loaded rank another copy, in place of a redundant copy of another
expert, or lets two experts of two ranks change places. The change that lowers largest loads most for each expert
fetched is made, layer against layer, until the budget is spent or none gains `least`. A load is always seen late, so
a change counts by what it gains in the worst of the last `windows` loads seen: what was hot only once moves nothing.

Parameters: `least` (0.005): of the mean load of a rank, what a fetch must take from the largest. `windows` (2): loads
that must agree, the one at hand included. Where nothing is in force it begins with experts in order.

A rank never gets a second copy of an expert. Without `moves` the only limit is `least`.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from poise.experts import ExpertPlacement, ExpertView
from poise.policies.kit.expert_moves import Change, apply, best_change

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(slots=True)
class FewMoves:
    """Change a placement step by step. See the module for the rule and its parameters."""

    least: float = 0.005
    windows: int = 2
    _seen: deque[NDArray[Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.windows < 1:
            raise ValueError(f"windows {self.windows} sees no load; give 1 or more")
        self._seen = deque(maxlen=self.windows)

    def rebalance(self, view: ExpertView) -> ExpertPlacement:
        """The placement in force with the changes that the budget allows."""
        import numpy as np

        if self._seen and self._seen[0].shape != view.counts.shape:
            self._seen.clear()
        self._seen.append(view.counts)
        holds = view.standing().holds.copy()
        counts = np.stack(self._seen, axis=1)  # (layers × windows × experts)
        counts = counts[:, counts.sum(axis=(0, 2)) > 0]
        left = np.inf if view.moves is None else view.moves
        best: dict[int, Change] = {}
        heap: list[tuple[float, int]] = []
        for layer in map(int, np.flatnonzero(counts.sum(axis=2).all(axis=1))) if counts.size else ():
            best[layer] = best_change(holds[layer], counts[layer], view.slots)
            heapq.heappush(heap, (-best[layer].gain, layer))
        while heap and best[heap[0][1]].gain >= self.least:
            _, layer = heapq.heappop(heap)
            if len(best[layer].add) > left:
                continue  # a swap where one fetch is left; another layer may have a copy
            left -= len(best[layer].add)
            apply(holds[layer], best[layer])
            best[layer] = best_change(holds[layer], counts[layer], view.slots)
            heapq.heappush(heap, (-best[layer].gain, layer))
        return ExpertPlacement(holds)
