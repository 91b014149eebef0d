"""First come, first served: the order of a gateway that has none of its own, for comparison by name.

It differs from no order at all in one thing: who was sent and came back finds the place of its arrival instead of the
front.
"""

from __future__ import annotations

from collections.abc import Hashable

from poise.core.request import RequestView
from poise.core.view import ClusterView


class Fcfs:
    """The earliest arrival first."""

    def flow(self, request: RequestView) -> Hashable:
        """One queue for all."""
        return 0

    def key(self, request: RequestView) -> int:
        """All alike, so that arrival decides."""
        return 0

    def order(self, flow: Hashable, cluster: ClusterView) -> int:
        """There is but one flow."""
        return 0

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """Nothing to remember."""
