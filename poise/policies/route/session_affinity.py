"""Session affinity: every request of a session goes to the same replica, where its KV is.

Consistent hashing on a session header, as vLLM's production stack (`session`) and vLLM's router (`consistent_hash`) do
it. AIBrix instead returns the pod to the client in the header and draws another when that is gone.

The key is the session; without one the tenant (vLLM's router goes on to user and tenant headers too); without both,
where `prefix_tokens` is set, the head of the prompt; and a request with none of these goes to the fewest requests in
flight (production stack: to the lowest rate). A replica that is lost or drains gives up only its own sessions, to their
next able replicas clockwise; one that joins takes about 1/n of them, which then miss their KV once.

Parameters: `prefix_tokens` 0 (off; vLLM's router hashes the whole body, which is unlike all others), `points` 150
(SGLang's ring; vLLM's router 160), and `overload` 0 (off): from which multiple of the mean of requests in flight on a
replica is passed over for the next one clockwise. SGLang's `bounded_consistent_hashing` is this at 1.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.policies.kit.hash_ring import HashRing, head, kept, spot


@dataclass(slots=True)
class SessionAffinity:
    """Send a request to the replica of its session, else of its tenant or prompt's head, else to the least busy.

    overload: times the mean of requests in flight at which a replica is passed over, at least 1; 0: never.
    prefix_tokens: how much of a prompt makes the key where there is neither session nor tenant; 0: none of it.
    points: places of each replica on the ring.
    """

    overload: float = 0.0
    prefix_tokens: int = 0
    points: int = 150
    _ring: HashRing | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.overload and self.overload < 1:
            raise ValueError(f"overload {self.overload} is below 1; give 0 for none, or at least 1")
        if self.prefix_tokens < 0:
            raise ValueError(f"prefix_tokens {self.prefix_tokens} is negative; give 0 for none")
        if self.points < 1:
            raise ValueError(f"points {self.points} is below 1; each replica needs a place on the ring")

    @property
    def needs(self) -> tuple[str, ...]:
        """The column read."""
        return ("requests",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The session's replica while it is able."""
        able = cluster.able(request)
        key = self._key(request)
        if key is None:
            return Route(chance.least(able, cluster.requests))
        ring = self._ring = kept(self._ring, chance.seed, self.points)
        if self.overload:
            return Route(ring.below(spot(key), able, cluster.requests, self.overload))
        return Route(ring.successor(spot(key), able))

    def _key(self, request: RequestView) -> int | None:
        """What the request sticks to, if anything."""
        if request.session >= 0:
            return request.session
        if request.tenant >= 0:
            return request.tenant
        return head(request, self.prefix_tokens) if self.prefix_tokens and request.ids else None
