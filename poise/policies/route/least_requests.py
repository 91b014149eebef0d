"""Least requests: the replica with the fewest requests in flight.

Join-the-shortest-queue, the default of most gateways (AIBrix `least-request`, Ray Serve's and Envoy's least-request
without sampling). A count ignores lengths; see `least_tokens`.
"""

from __future__ import annotations

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView


class LeastRequests:
    """Send each request to the able replica with the fewest requests in flight; ties are drawn."""

    needs: tuple[str, ...] = ("requests",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The least loaded by count."""
        return Route(chance.least(cluster.able(request), cluster.requests))
