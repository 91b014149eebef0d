"""Llumnix: dispatch to the freest replica, and migrate running requests from crowded replicas to free ones.

Paper: Llumnix, OSDI 2024, arXiv 2406.03243, sections 4.3 and 4.4, and its code, whose metrics and defaults are taken. A
replica's *freeness* is what it has left for each of its requests, in blocks:

    dispatch: F = (free blocks − demand of all that wait − headroom) / (running + waiting)
    migration: F = (free blocks − demand of the first that waits − headroom) / (running + 1 if any wait)

A request goes to the replica with the highest F. After each report, replicas with F below `migrate_out` (and those that
take no new requests: they drain) are paired with those above `migrate_in`, lowest with highest, as long as a move
narrows the gap. Each source sends one request at a time, of low priority first, the shortest first.

Parameters: `migrate_out` 3 blocks per request (the code's default); `migrate_in` is the same unless given.
`headroom`: blocks kept free on a replica that runs a request of high priority, so that others stay away from it and
leave it (the paper profiles it; 0 is Llumnix-base, without priorities). `high`: requests of this priority or a lower
number are high. `migrate` off leaves the dispatch alone.

It differs from Llumnix in what the control side sees: running requests' lengths are guessed from their prompt and from
the time since their first token (`step_s` each), because no event reports single tokens. Scaling is a separate
slot. The migration itself is the world's (live, in parts); how often it is decided is the period of reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poise.core.action import Move, Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView, InFlightView
from poise.policies.kit.loads import check_units, kv_tokens

_NEEDS = ("queued_tokens", "free_blocks", "running", "waiting", "flights")


@dataclass(slots=True)
class Llumnix:
    """Route to the freest replica and even freeness out by live migration.

    migrate_out, migrate_in: blocks per request below which a replica gives, above which it takes.
    headroom: blocks.  high: priority.  block_tokens: tokens per KV block.  step_s: guessed seconds per output token.
    """

    migrate_out: float = 3.0
    migrate_in: float = 3.0
    headroom: int = 0
    high: int = -1
    migrate: bool = True
    block_tokens: int = 16
    step_s: float = 0.03

    def __post_init__(self) -> None:
        check_units(self.block_tokens, self.step_s)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return _NEEDS

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The freest replica, including all waiting requests; ties are drawn."""
        free, block = cluster.free_blocks, self.block_tokens
        if self.headroom:
            free = [blocks - self._headroom(replica, cluster) for replica, blocks in enumerate(free)]
        columns = zip(free, cluster.queued_tokens, cluster.running, cluster.waiting, strict=True)
        crowding = [(tokens / block - left) / (runs + waits or 1) for left, tokens, runs, waits in columns]
        return Route(chance.least(cluster.able(request), crowding))

    def move(self, cluster: ClusterView) -> Sequence[Move]:
        """One move for each pair of a crowded and a free replica."""
        if not self.migrate:
            return ()
        flights = [cluster.flights(replica) for replica in range(len(cluster.total_blocks))]
        idle = [replica for replica, sent in enumerate(flights) if not any(each.target >= 0 for each in sent)]
        draining = {replica for replica in idle if flights[replica] and self._drains(replica, cluster)}
        freeness = {replica: self._freeness(replica, cluster) for replica in idle}
        taking = {each.target for sent in flights for each in sent}
        sources = sorted(draining) + sorted(
            (each for each in idle if flights[each] and each not in draining and freeness[each] < self.migrate_out),
            key=lambda replica: (freeness[replica], replica),
        )
        goals = sorted(
            (each for each in idle if each not in draining | taking and freeness[each] > self.migrate_in),
            key=lambda replica: (-freeness[replica], replica),
        )
        moves = []
        for source, goal in zip(sources, goals, strict=False):
            gap = float("inf") if source in draining else freeness[goal] - freeness[source]
            chosen = self._choose(flights[source], source, goal, gap, cluster)
            if chosen is not None:
                moves.append(Move(chosen.request.id, source, goal))
        return moves

    def _freeness(self, replica: int, cluster: ClusterView) -> float:
        """Blocks for each running request, the first waiting one counted in."""
        waits = cluster.waiting[replica] > 0
        demand = self._first_demand(cluster.flights(replica)) if waits else 0
        left = cluster.free_blocks[replica] - demand - self._headroom(replica, cluster)
        return left / max(1, cluster.running[replica] + waits)

    def _headroom(self, replica: int, cluster: ClusterView) -> int:
        if self.headroom and any(each.request.priority <= self.high for each in cluster.flights(replica)):
            return self.headroom
        return 0

    def _first_demand(self, flights: Sequence[InFlightView]) -> int:
        """Blocks that the oldest request without a first token asks for."""
        prompts = (each.request.prompt_tokens for each in flights if each.first_token_at < 0)
        return -(-next(prompts, 0) // self.block_tokens)

    def _drains(self, replica: int, cluster: ClusterView) -> bool:
        """Whether a replica takes no new requests: it is not able, and no peer of its own peers."""
        request = cluster.flights(replica)[0].request
        if replica in cluster.able(request):
            return False
        peers = cluster.peers(request, replica)
        return bool(peers) and replica not in cluster.peers(request, peers[0])

    def _choose(
        self, flights: Sequence[InFlightView], source: int, goal: int, gap: float, cluster: ClusterView
    ) -> InFlightView | None:
        """The request to move: low priority first, then the shortest, if it narrows the gap."""
        able = [
            each for each in flights
            if each.first_token_at >= 0 and each.target < 0 and goal in cluster.peers(each.request, source)
        ]  # fmt: skip
        if not able:
            return None
        chosen = max(
            able, key=lambda each: (each.request.priority, -kv_tokens(each, cluster.now, self.step_s), -each.request.id)
        )
        blocks = -(-kv_tokens(chosen, cluster.now, self.step_s) // self.block_tokens)
        cost = 2 * blocks / max(1, cluster.running[goal] + 1)
        return chosen if cost < gap and blocks < cluster.free_blocks[goal] else None
