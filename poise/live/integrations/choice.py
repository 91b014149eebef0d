"""Additions to the policies for proxies: fallback replicas, and the subset of replicas to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poise.core.action import Hold, Reject, Route
from poise.core.chance import Chance
from poise.core.event import Event, Restricted
from poise.core.policy import Router
from poise.core.request import RequestView
from poise.core.view import ClusterView


class Fallback:
    """A router with second choices: where `router` names none, the `most` least loaded of the other able replicas.

    A proxy that received its decision cannot ask again, so the decision names the replicas to try next.
    """

    def __init__(self, router: Router, most: int = 1) -> None:
        self.router = router
        self.most = most

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "router":  # a copy has no router before it is filled
            raise AttributeError(name)
        return getattr(self.router, name)  # Control looks at what else a policy can do

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return tuple(dict.fromkeys((*self.router.needs, "requests")))

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route | Hold | Reject:
        """The router's choice, and the replicas to try after it."""
        decision = self.router.route(request, cluster, chance)
        if not isinstance(decision, Route) or decision.fallback or decision.decode is not None:
            return decision
        requests = cluster.requests
        others = sorted((requests[each], each) for each in cluster.able(request) if each != decision.replica)
        return decision._replace(fallback=tuple(replica for _, replica in others[: self.most]))


class Subset:
    """An admission that restricts a request to the replicas that its proxy can reach (`Restricted`)."""

    needs: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._reach: dict[int, frozenset[int]] = {}

    def observe(self, event: Event) -> None:
        """Restrict a request to these replicas."""
        if type(event) is Restricted:
            self._reach[event.request] = frozenset(event.replicas)

    def ended(self, request: RequestView) -> None:
        """A request has ended."""
        self.forget(request.id)

    def forget(self, request: int) -> None:
        """A request has ended, or was refused before it could wait."""
        self._reach.pop(request, None)

    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int]:
        """The reachable ones."""
        reach = self._reach.get(request.id)
        return able if reach is None else [replica for replica in able if replica in reach]
