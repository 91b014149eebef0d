"""SAGA's routing: a session stays at its home until that is full, and replicas that idle take sessions from full ones.

Paper: "SAGA" (arXiv 2605.00528), known from notes on it and on a reproduction. A request goes to the replica of its
session's last one while the load there is below θ, else to the least loaded, which becomes its home. A replica that has
idled for `idle_s` takes a session from the most loaded one, where that has at least `steal` times the mean load: the
request of it that was sent last and has no first token moves (one that waits is queued anew), and its home with it.

Load is the share of a replica's KV that its requests fill, or will when they are admitted (`tokens`); the mean is over
those that may serve what the most loaded one serves. With engines that do not report their KV size, no home is ever
full. θ 0.8, `steal` 2.0 and `idle_s` 0.1 are the paper's; its epoch of 100 ms is the period of reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from poise.core.action import Move, Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.units import ps
from poise.core.view import ClusterView

HOMES = 100_000
"""The most sessions with a home; the oldest is dropped first."""
UNREPORTED = 1 << 40
"""KV tokens of a replica that does not report them."""


@dataclass(slots=True)
class Saga:
    """Sessions at their homes. full: θ.  steal: times the mean load, 0 for no stealing.  block_tokens: of KV blocks."""

    full: float = 0.8
    steal: float = 2.0
    idle_s: float = 0.1
    block_tokens: int = 16
    _homes: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _idle: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.full <= 0 or self.block_tokens < 1:
            raise ValueError(f"full {self.full} is a share of KV above 0, and block_tokens 1 or more")
        if (self.steal and self.steal < 1) or self.idle_s < 0:
            raise ValueError("steal is 0 for none or at least 1 times the mean load, and idle_s 0 or more")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("tokens", "requests", "flights") if self.steal else ("tokens",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """Home, unless that is full."""
        able = cluster.able(request)
        load = self._load(cluster)
        home = self._homes.get(request.session, -1) if request.session >= 0 else -1
        if home not in able or load[home] >= self.full:
            home = chance.least(able, load)
        self._settle(request.session, home)
        return Route(home)

    def move(self, cluster: ClusterView) -> Sequence[Move]:
        """Moves of sessions from the fullest replica to idle ones."""
        if not self.steal:
            return ()
        load = self._load(cluster)
        moves: list[Move] = []
        for thief in self._idlers(cluster):
            victim = max(range(len(load)), key=lambda replica: load[replica])
            mean = self._mean(cluster, load, victim)
            if load[victim] < self.steal * mean or not mean:
                break
            taken = self._take(cluster, victim, thief, {move.request for move in moves})
            if taken is not None:
                moves.append(Move(taken.id, victim, thief))
                for replica, sign in ((victim, -1), (thief, 1)):
                    load[replica] += sign * taken.prompt_tokens / self._room(cluster.total_blocks[replica])
                self._settle(taken.session, thief)
        return moves

    def _load(self, cluster: ClusterView) -> list[float]:
        block, rooms = self.block_tokens, cluster.total_blocks
        return [tokens / (blocks * block or UNREPORTED) for tokens, blocks in zip(cluster.tokens, rooms, strict=True)]

    def _room(self, blocks: int) -> int:
        """KV tokens that a replica of `blocks` blocks can hold."""
        return blocks * self.block_tokens or UNREPORTED

    def _mean(self, cluster: ClusterView, load: Sequence[float], victim: int) -> float:
        """The mean load of `victim` and of those that may take its requests; a gateway has places without an engine."""
        flights = cluster.flights(victim)
        alike = sorted((victim, *cluster.peers(flights[0].request, victim))) if flights else range(len(load))
        return sum(load[replica] for replica in alike) / len(alike)

    def _idlers(self, cluster: ClusterView) -> list[int]:
        """Replicas without a request for `idle_s`, in order."""
        now, idle = cluster.now, self._idle
        for replica, requests in enumerate(cluster.requests):
            if requests:
                idle.pop(replica, None)
            else:
                idle.setdefault(replica, now)
        return sorted(replica for replica, since in idle.items() if now - since >= ps(self.idle_s))

    def _take(self, cluster: ClusterView, victim: int, thief: int, moved: set[int]) -> RequestView | None:
        """The request without a first token that was sent last and that the thief may have."""
        for flight in reversed(cluster.flights(victim)):
            request = flight.request
            free = flight.first_token_at < 0 and flight.target < 0 and request.id not in moved
            if free and thief in cluster.peers(request, victim):
                return request
        return None

    def _settle(self, session: int, home: int) -> None:
        if session < 0:
            return
        self._homes.pop(session, None)
        self._homes[session] = home
        if len(self._homes) > HOMES:
            del self._homes[next(iter(self._homes))]
