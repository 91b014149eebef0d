"""Consistent hashing with bounded loads: prompts with equal beginnings share a replica, until it is full.

Paper: Mirrokni, Thorup and Zadimoghaddam, SODA 2018 (arXiv 1608.01350). A key goes clockwise to the first able replica
that has fewer than ⌈factor · (m + 1) / n⌉ requests in flight, where m are those of all n able replicas. So none ever
gets beyond `factor` times the mean, and where load forces a key away it is always away to the same neighbours.
As a router of prompts: KubeAI's `PrefixHash` and SGLang's `prefix_hash`; HAProxy and Envoy have the rule for caches.

Parameters: `factor` 1.25 (KubeAI, SGLang), `prefix_tokens` 256 (SGLang; KubeAI takes the first 100
characters), `points` 150 (SGLang's ring). The key is the shortest run of whole trace extents that covers
`prefix_tokens`; a prompt without identity differs from all others, so its own id is its key. It differs from SGLang,
which leaves a full replica for the least loaded of all; the walk here is the paper's. Where every prompt has the same
beginning (Mooncake's conversations share their first 512 tokens) there is one key, so replicas fill in the order of the
ring.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.policies.kit.hash_ring import HashRing, head, kept, spot


@dataclass(slots=True)
class BoundedHash:
    """Send a prompt to the first replica clockwise from its head's hash that is not full.

    factor: how many times the mean of requests in flight a replica may have, at least 1.
    prefix_tokens: how much of a prompt makes its key.
    points: places of each replica on the ring.
    """

    without_prefixes: ClassVar[str] = "a place drawn for each request"
    factor: float = 1.25
    prefix_tokens: int = 256
    points: int = 150
    _ring: HashRing | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.factor < 1:
            raise ValueError(f"factor {self.factor} is below 1; the replicas must have room for the mean load")
        if self.prefix_tokens < 1:
            raise ValueError(f"prefix_tokens {self.prefix_tokens} is below 1; give the tokens that make the key")
        if self.points < 1:
            raise ValueError(f"points {self.points} is below 1; each replica needs a place on the ring")

    @property
    def needs(self) -> tuple[str, ...]:
        """The column read."""
        return ("requests",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The first with room, clockwise."""
        ring = self._ring = kept(self._ring, chance.seed, self.points)
        key = head(request, self.prefix_tokens) if request.ids else request.id
        return Route(ring.below(spot(key), cluster.able(request), cluster.requests, self.factor))
