"""SGLang's cache-aware router: the replica that was sent the longest prefix, unless the cluster is out of balance.

Code: SGLang's model gateway (`sgl-model-gateway/src/policies/cache_aware.rs`, 2026). It is out of balance when the
requests in flight of the busiest replica exceed those of the least busy by more than `balance_abs_threshold` and
`balance_rel_threshold` times; then the least busy takes the request. In balance, the prompt is matched against a tree
of what was sent: above `cache_threshold` of its length it goes to the replica that matched, else to the least busy
(the code; its older documentation says: to the smallest tree). Either way it enters the tree of its replica.

The tree is the router's own guess. It sees no cache, so it does not follow evictions of engines, and its size is
unrelated
to theirs: every `eviction_interval_s` the least recently sent leaves of each replica are evicted down to
`max_tree_size`. Parameters are the defaults of SGLang's launcher: 0.3, 64, 1.5, 60 s and 2²⁶ characters, which are 2²⁴
tokens here at four characters each (the Rust structure's own: 0.5, 32, 1.1, 30 s, 10,000).

It differs in matching trace extents instead of characters; in taking the deepest match that an able replica has, where
SGLang takes the first healthy worker if the one it found is not; and in drawing ties. Of several with the same prefix
it takes the one that has had it longest, as SGLang, which remembers one replica per node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.units import ps
from poise.core.view import ClusterView
from poise.policies.kit.sent_prefixes import SentTree


@dataclass(slots=True)
class CacheAware:
    """Prefer the replica that was sent the longest prefix while requests in flight are in balance.

    cache_threshold: share of the prompt that must match, in [0, 1].
    balance_abs_threshold, balance_rel_threshold: difference and ratio of requests in flight, both of which must be
    exceeded for load alone to decide.
    eviction_interval_s: seconds between evictions from the tree.  max_tree_size: tokens kept of each replica.
    """

    without_prefixes: ClassVar[str] = "the fewest requests"
    cache_threshold: float = 0.3
    balance_abs_threshold: int = 64
    balance_rel_threshold: float = 1.5
    eviction_interval_s: float = 60.0
    max_tree_size: int = 1 << 24
    _tree: SentTree = field(default_factory=SentTree, init=False, repr=False, compare=False)
    _evict_at: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.cache_threshold <= 1:
            raise ValueError(f"cache_threshold {self.cache_threshold} is no share of a prompt; give 0 to 1")
        if self.eviction_interval_s < 0 or self.max_tree_size < 0:
            raise ValueError("eviction_interval_s and max_tree_size must not be negative")

    @property
    def needs(self) -> tuple[str, ...]:
        """The column read."""
        return ("requests",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The longest match in balance, the least busy out of it."""
        able, requests = cluster.able(request), cluster.requests
        if not request.ids:
            return Route(chance.least(able, requests))
        if cluster.now >= self._evict_at:
            self._tree.drop(self.max_tree_size)
            self._evict_at = cluster.now + ps(self.eviction_interval_s)
        loads = requests if len(able) == len(requests) else [requests[replica] for replica in able]
        least, most = min(loads), max(loads)
        chosen, matched = -1, 0
        if most - least <= self.balance_abs_threshold or most <= self.balance_rel_threshold * least:
            chosen, matched = self._tree.match(request.ids, request.ends, able)
        if matched <= self.cache_threshold * request.prompt_tokens:
            chosen = chance.least(able, requests)
        self._tree.add(chosen, request.ids, request.ends)
        return Route(chosen)
