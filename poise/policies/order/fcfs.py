"""First come, first served: the gateway's default order, under a name for comparisons.

It differs from no order at all in one thing: a request that was sent and came back takes the place of its arrival
instead of the front.
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
        """Equal keys, so that arrival decides."""
        return 0

    def order(self, flow: Hashable, cluster: ClusterView) -> int:
        """There is but one flow."""
        return 0

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """Nothing to remember."""
