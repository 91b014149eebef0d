"""Programs first come, first served, at the gateway; the same rule as in an engine's queue (`queue/program_fcfs`)."""

from __future__ import annotations

from collections.abc import Hashable

from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.policies.queue.program_fcfs import ProgramFcfs


class ProgramOrder(ProgramFcfs):
    """The earliest program first; one object may serve as `queue` too."""

    def flow(self, request: RequestView) -> Hashable:
        """One queue for all."""
        return 0

    def key(self, request: RequestView) -> int:
        """When its program began."""
        return self.queue(request)

    def order(self, flow: Hashable, cluster: ClusterView) -> int:
        """There is but one flow."""
        return 0

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """Nothing to remember."""
