"""Decentralised balancing: overfull replicas query a few others and hand requests over, without a global view.

Source: Intelligent Load Balancing in Cloud Computer Systems (doctoral thesis; known from its summary), whose agents
on overloaded nodes negotiate with brokers of others. Here each replica has an agent. One that finds itself fuller by
`slack` than those it queried offers its best request to the emptiest of them; that one takes it if it stays the emptier
of the two, and takes at most one a round. `asks` bounds the messages: per round and replica that many queries and their
replies, and an offer and its answer for each hand-over tried. `messages` counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from poise.core.action import Move
from poise.core.chance import Chance
from poise.core.view import ClusterView, InFlightView
from poise.policies.kit.loads import Loads, check_units


@dataclass(slots=True)
class Negotiation:
    """Hand requests over between pairs of replicas that query each other.

    asks: replicas queried by each.  slack: how much fuller than the mean of those a replica is before it gives.
    second: what a second of copying weighs against squared loads.  least: the least gain of a hand-over.
    block_tokens: tokens per KV block.  step_s: guessed seconds per output token.
    """

    asks: int = 3
    slack: float = 0.1
    second: float = 1.0
    least: float = 0.01
    block_tokens: int = 16
    step_s: float = 0.03
    messages: int = field(default=0, init=False)
    _chance: Chance = field(default_factory=lambda: Chance(0), init=False, repr=False)

    def __post_init__(self) -> None:
        check_units(self.block_tokens, self.step_s)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("flights",)

    def move(self, cluster: ClusterView) -> Sequence[Move]:
        """The hand-overs of one round, in the order of the agents, the first of which rotates."""
        loads = Loads(cluster, self.block_tokens, self.step_s)
        count = len(loads.share)
        self._chance.key += 1
        first = self._chance.pick(range(count), "first")
        taken: set[int] = set()
        moves = []
        for place in range(count):
            source = (first + place) % count
            move = self._hand_over(source, loads, taken, cluster)
            if move is not None:
                taken.add(move.target)
                moves.append(move)
        return moves

    def _hand_over(self, source: int, loads: Loads, taken: set[int], cluster: ClusterView) -> Move | None:
        """The hand-over that the agent of one replica agrees on."""
        movable = loads.movable(source)
        if not movable:
            return None
        queried = self._ask(cluster.peers(movable[0].request, source), source)
        shares = [loads.share[each] for each in queried]
        if not queried or loads.share[source] <= (1 + self.slack) * sum(shares) / len(shares):
            return None
        for target in sorted(queried, key=lambda each: (loads.share[each], each)):
            flight = self._best(movable, source, target, loads, cluster)
            if flight is None:
                continue
            self.messages += 2
            if target not in taken:
                loads.move(flight, source, target)
                return Move(flight.request.id, source, target)
        return None

    def _ask(self, peers: Sequence[int], source: int) -> list[int]:
        """Some of the peers, redrawn in each round; counts the messages to query them."""
        left = list(peers)
        queried = [
            left.pop(left.index(self._chance.pick(left, f"peer {source} {turn}")))
            for turn in range(min(self.asks, len(left)))
        ]
        self.messages += 2 * len(queried)
        return queried

    def _best(
        self, movable: Sequence[InFlightView], source: int, target: int, loads: Loads, cluster: ClusterView
    ) -> InFlightView | None:
        """The request whose move to `target` gains most; the oldest of equals."""
        best, least = None, self.least
        for flight in movable:
            if target in cluster.peers(flight.request, source):
                gain = loads.gain(flight, source, target, self.second)
                if gain > least:
                    best, least = flight, gain
        return best
