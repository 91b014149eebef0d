"""Round robin: each able replica in turn.

The textbook baseline; vLLM's production stack, SGLang's router and Dynamo all ship it. It sees no load at all, so it
balances counts but not work.
"""

from __future__ import annotations

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView


class RoundRobin:
    """Send each request to the replica after the last one used for its model and stage."""

    needs: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], int] = {}

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The next able replica in order of id, whichever joined or left meanwhile."""
        able = cluster.able(request)
        key = cluster.stage, request.model
        last = self._last.get(key, -1)
        if last + 1 < len(able) and able[last + 1] == last + 1:  # replicas are numbered without gaps: no search
            chosen = last + 1
        else:
            chosen = next((replica for replica in able if replica > last), able[0])
        self._last[key] = chosen
        return Route(chosen)
