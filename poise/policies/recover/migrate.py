"""Migrate running requests with their KV cache to peers within the notice, and recompute only those left.

A move is Llumnix's live migration (arXiv 2406.03243, section 4.2), which the paper uses for instances that terminate
too. A request whose prompt is being computed cannot be moved until it has its first token, and the move is retried
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poise.core.action import Move, Wake
from poise.core.units import ps
from poise.core.view import ClusterView
from poise.policies.recover.recompute import check_patience


@dataclass(frozen=True, slots=True)
class Migrate:
    """Move each request to the peer with the least tokens for its KV blocks.

    lead_s: seconds before the end at which to begin, so that requests that end by then need not move; 0: at once.
    patience_s: as `Recompute` has it.
    """

    lead_s: float = 0.0
    patience_s: float = 0.0

    def __post_init__(self) -> None:
        check_patience(self.patience_s)
        if self.lead_s < 0:
            raise ValueError(f"lead_s {self.lead_s:g} must be at least 0; 0 begins as soon as the notice is given")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("flights", "tokens")

    @property
    def resumes(self) -> bool:
        """The client keeps its tokens."""
        return True

    def recover(self, replica: int, gone_at: int, cluster: ClusterView) -> Sequence[Move | Wake]:
        """A move for each request that does not move yet, in the order in which they were sent."""
        begin = gone_at - ps(self.lead_s)
        if self.lead_s and cluster.now < begin:
            return (Wake(begin),)
        tokens, blocks = list(cluster.tokens), cluster.total_blocks
        moves = []
        for flight in cluster.flights(replica):
            request = flight.request
            peers = cluster.peers(request, replica) if flight.target < 0 else ()
            if peers:
                target = min(peers, key=lambda peer: (tokens[peer] / max(blocks[peer], 1), peer))
                tokens[target] += request.prompt_tokens
                moves.append(Move(request.id, replica, target))
        return moves
