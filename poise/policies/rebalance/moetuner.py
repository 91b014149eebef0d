"""MoETuner: clusters of experts with equal loads, then clusters on ranks so that the busiest link carries least.

Go and Mahajan, arXiv 2502.06643 (2025). Two integer programs. Of each layer: experts to equally large clusters so
that the largest load of a cluster is least. Of all layers: each layer's clusters to ranks so that the largest traffic
between two ranks, weighed by their link, is least, from profiled tokens by pairs of experts in consecutive layers.

Parameters: `far` (4.0): what a token between nodes costs over one inside a node. `gap` (0.02): how far from the optimum
a program may stop. `nodes` (200): branches after which it stops with its best answer.

Deviation: the second program is solved layer after layer, given the layers before, which makes it linear. Without flows
clusters stay in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poise.core.errors import UserError
from poise.experts import ExpertPlacement, ExpertView
from poise.experts.packing import pack
from poise.policies.kit.expert_program import ExpertProgram

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class MoeTuner:
    """Balance clusters, then traffic. See the module for the rule and its parameters."""

    far: float = 4.0
    gap: float = 0.02
    nodes: int = 200

    def rebalance(self, view: ExpertView) -> ExpertPlacement:
        """One copy of each expert; UserError where ranks do not divide experts."""
        import numpy as np

        if view.experts % view.ranks:
            raise UserError(f"moetuner: {view.experts} experts do not divide by {view.ranks} ranks; give a divisor")
        cost = np.where(_same_node(view), 1.0, self.far)
        np.fill_diagonal(cost, 0.0)
        traffic = np.zeros((view.ranks, view.ranks))
        where: list[NDArray[Any]] = []
        for layer in range(view.layers):
            cluster = self._clusters(view.counts[layer], view.ranks)
            rank = np.arange(view.ranks)
            if view.flows is not None and layer:
                sent = np.eye(view.ranks)[where[-1]].T @ view.flows[layer - 1] @ np.eye(view.ranks)[cluster]
                rank = self._ranks(sent, traffic, cost)
                traffic += sent[:, np.argsort(rank)]
            where.append(rank[cluster])
        held = np.eye(view.ranks, dtype=np.int16)[np.stack(where)].transpose(0, 2, 1)
        return ExpertPlacement(held)

    def _clusters(self, counts: NDArray[Any], ranks: int) -> NDArray[Any]:
        """The cluster of each expert: the better of the program's answer and of packing, which it may not reach."""
        import numpy as np

        experts = len(counts)
        packed: NDArray[Any] = pack(counts[None], ranks)[0]
        largest = np.bincount(packed, weights=counts, minlength=ranks).max()
        if largest <= counts.sum() / ranks * (1 + self.gap) or largest == counts.max():
            return packed
        program = ExpertProgram(experts * ranks, self.gap, self.nodes)
        for expert in range(experts):
            program.row([expert * ranks + each for each in range(ranks)], 1.0, 1.0)
        for rank in range(ranks):
            program.row([each * ranks + rank for each in range(experts)], experts / ranks, experts / ranks)
            program.below_largest([each * ranks + rank for each in range(experts)], list(counts))
        found = program.solve()
        if found is None:
            return packed
        chosen: NDArray[Any] = found.reshape(experts, ranks).argmax(axis=1)
        better = np.bincount(chosen, weights=counts, minlength=ranks).max() < largest
        return chosen if better else packed

    def _ranks(self, sent: NDArray[Any], traffic: NDArray[Any], cost: NDArray[Any]) -> NDArray[Any]:
        """The rank of each cluster. sent: (ranks × clusters) tokens.  traffic: (ranks × ranks) so far."""
        import numpy as np

        ranks = len(cost)
        program = ExpertProgram(ranks * ranks, self.gap, self.nodes)
        for each in range(ranks):
            program.row([each * ranks + rank for rank in range(ranks)], 1.0, 1.0)
            program.row([cluster * ranks + each for cluster in range(ranks)], 1.0, 1.0)
        for one in range(ranks):
            for other in range(ranks):
                if one != other:
                    columns = [cluster * ranks + other for cluster in range(ranks)]
                    tokens = list(sent[one] * cost[one, other])
                    program.below_largest(columns, tokens, traffic[one, other] * cost[one, other])
        found = program.solve()
        return np.arange(ranks) if found is None else found.reshape(ranks, ranks).argmax(axis=1)


def _same_node(view: ExpertView) -> NDArray[Any]:
    import numpy as np

    node = np.arange(view.ranks) * view.nodes // view.ranks
    found: NDArray[Any] = node[:, None] == node[None, :]
    return found
