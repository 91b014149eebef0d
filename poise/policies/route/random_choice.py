"""Random choice: each able replica is as likely as any other.

The baseline that needs no state at all; SGLang's router, vLLM's and AIBrix ship it. It sees no load and does not even
balance counts: of m requests each of n replicas gets m/n ± √(m/n).
"""

from __future__ import annotations

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView


class RandomChoice:
    """Send each request to an able replica drawn by its id."""

    needs: tuple[str, ...] = ()

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """One of the able ones; the two halves of a pair are drawn apart."""
        return Route(chance.pick(cluster.able(request), cluster.stage))
