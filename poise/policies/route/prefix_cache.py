"""AIBrix's prefix-cache router: the longest cached prefix, unless that replica is much busier than the others.

Paper: AIBrix, arXiv 2504.03648, section 3.2, and its gateway's `prefix-cache` algorithm. If the spread of requests in
flight exceeds `imbalance`, the least busy replica is taken. Otherwise replicas with any match go by match share
(longest first), then by requests (fewest first), and the first whose requests are at most mean + `deviations` · σ is
taken; if none qualifies, the least busy.

Parameters: `imbalance` (the documentation says 16, its code's default is 8) and `deviations` (documentation 2, code
1); the documented values are the defaults here. It differs from AIBrix in matching trace extents rather than blocks of
128 characters, and in drawing ties by request instead of at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from operator import mul
from typing import ClassVar

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView


@dataclass(slots=True)
class PrefixCache:
    """Prefer the longest cached prefix among replicas that are not overloaded.

    imbalance: spread of requests in flight beyond which load alone decides.
    deviations: how many standard deviations above the mean a replica may be and still be preferred.
    """

    without_prefixes: ClassVar[str] = "the fewest requests"
    imbalance: int = 16
    deviations: float = 2.0

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("requests", "cached_tokens")

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The longest match within bounds of load."""
        able = cluster.able(request)
        requests = cluster.requests
        if not request.ids:
            return Route(chance.least(able, requests))
        cached = cluster.cached_tokens(request)
        loads = requests if len(able) == len(requests) else [requests[replica] for replica in able]
        if not any(cached) or max(loads) - min(loads) > self.imbalance:
            return Route(chance.least(able, requests))
        count, total, squares = len(loads), sum(loads), sum(map(mul, loads, loads))
        limit = (total + self.deviations * sqrt(count * squares - total * total)) / count
        fit = [replica for replica in able if cached[replica] and requests[replica] <= limit]
        if not fit:
            return Route(chance.least(able, requests))
        return Route(chance.least(fit, lambda replica: (-cached[replica], requests[replica])))
