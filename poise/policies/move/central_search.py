"""Balance the cluster's load by a central search for moves, weighed against the cost of moving.

Source: Intelligent Load Balancing in Cloud Computer Systems (doctoral thesis; known from its summary), whose central
balancers are metaheuristics that lower the imbalance of nodes plus a cost for each migrated task. Here the search takes
the best single move again and again, up to `budget` moves a round: steepest descent on the sum of squared loads, in
units of their mean, plus `second` for every second of KV copied. A round follows each report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poise.core.action import Move
from poise.core.view import ClusterView, InFlightView
from poise.policies.kit.loads import Loads, check_units

Candidate = tuple[InFlightView, int, Sequence[int]]
"""A request, its replica and the replicas that it may move to."""


@dataclass(slots=True)
class CentralSearch:
    """Make the move that balances the loads most, as long as it gains more than `least`.

    budget: moves a round.  second: what a second of copying weighs against squared loads.
    block_tokens: tokens per KV block.  step_s: guessed seconds per output token.
    """

    budget: int = 8
    second: float = 1.0
    least: float = 0.01
    block_tokens: int = 16
    step_s: float = 0.03

    def __post_init__(self) -> None:
        check_units(self.block_tokens, self.step_s)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("flights",)

    def move(self, cluster: ClusterView) -> Sequence[Move]:
        """The moves of one round, the best one first."""
        loads = Loads(cluster, self.block_tokens, self.step_s)
        left = [
            (flight, source, peers)
            for source in range(len(loads.share))
            for flight in loads.movable(source)
            if (peers := cluster.peers(flight.request, source))
        ]
        moves: list[Move] = []
        while len(moves) < self.budget and (best := self._best(left, loads)):
            flight, source, target = best
            loads.move(flight, source, target)
            left = [each for each in left if each[0] is not flight]
            moves.append(Move(flight.request.id, source, target))
        return moves

    def _best(self, left: Sequence[Candidate], loads: Loads) -> tuple[InFlightView, int, int] | None:
        """The move that gains most, of each request to the emptiest of its peers; the first of equals."""
        best, least = None, self.least
        for flight, source, peers in left:
            target = min(peers, key=loads.share.__getitem__)
            gain = loads.gain(flight, source, target, self.second)
            if gain > least:
                best, least = (flight, source, target), gain
        return best
