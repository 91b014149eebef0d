"""Redundant copies of experts that float over nodes, then swaps inside nodes: near the bound, and few nodes a token.

Our own. EPLB ties a group of experts and all its copies to one node, so a node with a heavy group stays heavy. Here:

1. Copies: one after another to the expert with the largest load a copy, at most one a rank.
2. The first copy of each expert stays in the node of its group; groups go to nodes, equally many to each and the
heaviest
   first, by the load that is left to first copies.
3. The other copies go to the least loaded node that has room, the largest first.
4. Inside a node copies go to ranks, largest first, apart from copies of the same expert.
5. While it lowers the load of a node's most loaded rank, two copies of two of its ranks change places.

Where groups do not divide by nodes, the whole is one node. No rank can have less than `poise.experts.least_busiest`
says.

Parameter: `swaps` (64): the most rounds of step 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poise.experts import ExpertPlacement, ExpertView
from poise.experts.packing import holding, pack, pack_apart

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class FloatingCopies:
    """Balance with copies that may leave the node of their group. See the module for the rule."""

    swaps: int = 64

    def rebalance(self, view: ExpertView) -> ExpertPlacement:
        """A placement from scratch."""
        import numpy as np

        from poise.experts.bound import copies

        nodes = view.nodes if view.groups % view.nodes == 0 else 1
        slots = min(view.ranks * view.slots, view.ranks * view.experts) // nodes
        counts = copies(view.counts, slots * nodes, view.ranks)
        names = self._nodes(view.counts / counts, counts, nodes, view.groups, slots).reshape(-1, slots)
        part = np.repeat(view.counts / counts, nodes, axis=0)
        parts = np.take_along_axis(part, names, axis=1)
        ranks = view.ranks // nodes
        where = swapped(parts, pack_apart(parts, names, ranks), ranks, self.swaps)
        held = holding(names, where, ranks, view.experts)
        return ExpertPlacement(held.reshape(view.layers, view.ranks, view.experts))

    def _nodes(self, part: NDArray[Any], counts: NDArray[Any], nodes: int, groups: int, slots: int) -> NDArray[Any]:
        """(layers × nodes × slots) the expert of each copy that a node has."""
        import numpy as np

        layers, experts = part.shape
        home = np.repeat(pack(part.reshape(layers, groups, -1).sum(axis=2), nodes), experts // groups, axis=1)
        at = np.arange(layers)
        load, count = np.zeros((layers, nodes)), np.zeros((layers, nodes), dtype=np.int64)
        names = np.zeros((layers, nodes, slots), dtype=np.int64)
        order = np.argsort(-part, axis=1, kind="stable")
        floating = np.repeat(np.tile(np.arange(experts), layers), (counts - 1).ravel()).reshape(layers, -1)
        floating = np.take_along_axis(
            floating, np.argsort(-np.take_along_axis(part, floating, axis=1), axis=1, kind="stable"), axis=1
        )
        for expert in np.concatenate([order, floating], axis=1).T:
            first = count.sum(axis=1) < experts
            free = np.where(count < slots, load, np.inf).argmin(axis=1)
            node = np.where(first, home[at, expert], free)
            names[at, node, count[at, node]] = expert
            load[at, node] += part[at, expert]
            count[at, node] += 1
        return names


def swapped(parts: NDArray[Any], where: NDArray[Any], ranks: int, rounds: int) -> NDArray[Any]:
    """`where` with copies exchanged, two at a time, while that lowers the most loaded rank of a row.

    parts: (rows × copies) loads.  where: (rows × copies) the rank of each.
    """
    import numpy as np

    where = where.copy()
    live = np.arange(len(parts))
    for _ in range(rounds):
        if not len(live):
            break
        load = np.zeros((len(live), ranks))
        np.add.at(load, (np.arange(len(live))[:, None], where[live]), parts[live])
        full = load.argmax(axis=1)
        most = load[np.arange(len(live)), full]
        on = where[live] == full[:, None]
        width = int(on.sum(axis=1).max())
        mine = np.argsort(~on, axis=1, kind="stable")[:, :width]  # copies of the fullest rank
        less = np.take_along_axis(parts[live], mine, axis=1)[:, :, None] - parts[live][:, None, :]
        theirs = np.take_along_axis(load, where[live], axis=1)
        after = np.maximum(most[:, None, None] - less, theirs[:, None, :] + less)
        after[~np.take_along_axis(on, mine, axis=1)] = np.inf
        after[np.broadcast_to(on[:, None, :], after.shape)] = np.inf
        best = after.reshape(len(live), -1).argmin(axis=1)
        gains = after.reshape(len(live), -1)[np.arange(len(live)), best] < most * (1 - 1e-6)
        one, other = mine[np.arange(len(live)), best // parts.shape[1]][gains], (best % parts.shape[1])[gains]
        rows = live[gains]
        where[rows, one], where[rows, other] = where[rows, other], where[rows, one]
        live = rows
    return where
