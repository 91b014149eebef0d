"""Least tokens: the replica with the fewest tokens, waiting to be computed or held in its KV cache.

Waiting prompt tokens determine the time to a first token, held KV tokens that of a decode step (Dynamo's
router adds the same two terms). Counts are believed, so their age matters: with stale reports and dispatches in flight
not counted, all requests go to the same replica.
"""

from __future__ import annotations

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView


class LeastTokens:
    """Send each request to the able replica with the fewest tokens; ties are drawn."""

    needs: tuple[str, ...] = ("tokens",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The least loaded by tokens."""
        return Route(chance.least(cluster.able(request), cluster.tokens))
