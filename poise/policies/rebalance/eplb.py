"""EPLB: groups of experts to nodes, redundant copies inside each node, copies to its devices.

DeepSeek-AI, DeepSeek-V3 technical report, arXiv 2412.19437 (2024), section 3.4; code: deepseek-ai/EPLB. Hierarchical:
groups go to nodes, equally many to each and the heaviest first; in a node one copy after another goes to the expert
with the largest load a copy; copies go to the node's ranks like groups to nodes. A token's experts are of few groups,
so few nodes get it. Where groups do not divide by nodes the whole is one node of one group: global.

Parameter: `hierarchical` (True): False for global in any case.

Deviation: layers are balanced side by side, not one after another, with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poise.experts import ExpertPlacement, ExpertView
from poise.experts.packing import holding, pack, spread_names

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Eplb:
    """Balance by groups, copies and ranks. See the module for the rule."""

    hierarchical: bool = True

    def rebalance(self, view: ExpertView) -> ExpertPlacement:
        """A placement from scratch; it does not regard what is in force, so `moves` are as many as they are."""
        import numpy as np

        from poise.experts.bound import copies

        nodes, groups = view.nodes, view.groups
        if not self.hierarchical or groups % nodes:
            nodes = groups = 1
        inside = self._experts_of_nodes(view.counts, nodes, groups)
        rows, ranks = view.layers * nodes, view.ranks // nodes
        load = np.take_along_axis(np.repeat(view.counts[:, None], nodes, axis=1), inside, axis=2).reshape(rows, -1)
        counts = copies(load, ranks * view.slots, ranks * view.slots)
        names = spread_names(counts)
        packs = pack(np.take_along_axis(load / counts, names, axis=1), ranks)
        experts = np.take_along_axis(inside.reshape(rows, -1), names, axis=1)
        held = holding(experts, packs, ranks, view.experts)
        return ExpertPlacement(held.reshape(view.layers, view.ranks, view.experts))

    def _experts_of_nodes(self, counts: NDArray[Any], nodes: int, groups: int) -> NDArray[Any]:
        """(layers × nodes × experts of one) whose groups each node has."""
        import numpy as np

        layers, experts = counts.shape
        node = pack(counts.reshape(layers, groups, -1).sum(axis=2), nodes)
        each = np.repeat(node, experts // groups, axis=1)
        return np.argsort(each, axis=1, kind="stable").reshape(layers, nodes, experts // nodes)
