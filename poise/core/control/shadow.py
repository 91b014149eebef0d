"""Shadow mode: a second router decides on the same view; its choices are recorded, not executed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from poise.core.action import Hold, Move, Reject, Route
from poise.core.chance import Chance
from poise.core.event import Event
from poise.core.policy import Router
from poise.core.request import RequestView
from poise.core.view import ClusterView

READS: Final = ("queued_tokens", "cached_tokens")
"""Columns by which the two choices are compared."""


class Agreement(NamedTuple):
    """How two routers' decisions compare.

    decisions: of which both sent the request to a replica in `routed`, and to the same one in `same`.
    gain_tokens: prompt tokens fewer between a request and its first token, at the shadow's choice: those
    queued at the replica and its own that are not cached there, as the control side believes; a mean over `routed`.
    gain_s: the same in seconds, where the replicas' prefill rates are known, else 0.
    """

    decisions: int = 0
    routed: int = 0
    same: int = 0
    gain_tokens: float = 0.0
    gain_s: float = 0.0


class ShadowedRouter:
    """Routes as `active` does, and calls `shadow` with the same view first; the belief follows `active`.

    The gain is of each decision alone: had the shadow's been executed, later ones would have met other queues and
    caches. So it shows where to look; `poise whatif` predicts the effect.
    """

    def __init__(self, active: Router, shadow: Router) -> None:
        self.active: Any = active
        self.shadow: Any = shadow
        self.needs = tuple(sorted({*active.needs, *shadow.needs, *READS}))
        self.decisions = self.routed = self.same = 0
        self._tokens = 0
        self._seconds = 0.0
        self.group = getattr(active, "group", _model)
        self.eager = getattr(active, "eager", False)

    @property
    def agreement(self) -> Agreement:
        """All decisions so far."""
        routed = self.routed or 1
        return Agreement(self.decisions, self.routed, self.same, self._tokens / routed, self._seconds / routed)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route | Hold | Reject:
        """The answer of `active`."""
        other = self.shadow.route(request, cluster, chance)
        chosen: Route | Hold | Reject = self.active.route(request, cluster, chance)
        if cluster.stage == "serve":
            self._compare(request, cluster, chosen, other)
        return chosen

    def observe(self, event: Event) -> None:
        """Pass an event to both."""
        for router in (self.active, self.shadow):
            if hasattr(router, "observe"):
                router.observe(event)

    def _compare(
        self, request: RequestView, cluster: ClusterView, chosen: Route | Hold | Reject, other: Route | Hold | Reject
    ) -> None:
        self.decisions += 1
        if type(chosen) is not Route or type(other) is not Route:
            return
        self.routed += 1
        if chosen.replica == other.replica:
            self.same += 1
            return
        cached = cluster.cached_tokens(request)
        waits = [
            cluster.queued_tokens[replica] + max(request.prompt_tokens - cached[replica], 0)
            for replica in (chosen.replica, other.replica)
        ]
        rates = [cluster.prefill_rate[replica] for replica in (chosen.replica, other.replica)]
        self._tokens += waits[0] - waits[1]
        if all(rates):
            self._seconds += waits[0] / rates[0] - waits[1] / rates[1]


class _Moving(ShadowedRouter):
    """One whose `active` router moves requests as well."""

    def move(self, cluster: ClusterView) -> Sequence[Move]:
        """The moves of `active`."""
        moves: Sequence[Move] = self.active.move(cluster)
        return moves


def shadowed(active: Router, shadow: Router) -> ShadowedRouter:
    """`active`, wrapped with `shadow`."""
    return (_Moving if hasattr(active, "move") else ShadowedRouter)(active, shadow)


def _model(request: RequestView) -> int:
    return request.model
