"""Empty replicas that drain: their requests move to peers with their KV cache, instead of ending where they are.

ElasticMoE (arXiv 2510.02613) keeps the KV cache of an instance where it is while the instance changes its size, so that
the new size takes over the requests of the old one without a copy. Here it is a live migration, as `migrate` does it
within a notice: give the replicas of such an instance a link that is fast enough (`link_gb_s`). With the links of a
cluster it shortens any scale-down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from poise.core.action import Move
from poise.core.view import ClusterView
from poise.policies.recover.migrate import Migrate


@dataclass(frozen=True, slots=True)
class Evacuate:
    """Move every request of a replica that takes no new ones to the peer with the least tokens for its KV blocks.

    A request whose prompt is being computed stays until it has its first token.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("flights", "tokens")

    def move(self, cluster: ClusterView) -> Sequence[Move]:
        """The moves away from all of them."""
        migrate = Migrate()
        moves: list[Move] = []
        for replica in range(len(cluster.total_blocks)):
            first = next(islice(cluster.flights(replica), 1), None)
            if first is not None and replica not in cluster.able(first.request):
                moves += [each for each in migrate.recover(replica, 0, cluster) if isinstance(each, Move)]
        return moves
