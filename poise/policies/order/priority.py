"""Strict priority: the lowest `priority` number first, then by arrival, as vLLM reads the request field of that name.

vLLM orders an engine's queue so (`--scheduling-policy priority`); here the gateway does it, before an engine is chosen.
Nothing ages: a request waits as long as more urgent ones keep coming.
"""

from __future__ import annotations

from collections.abc import Hashable

from poise.core.request import RequestView
from poise.core.view import ClusterView


class Priority:
    """The request's `priority`, lowest first."""

    def flow(self, request: RequestView) -> Hashable:
        """One queue for all."""
        return 0

    def key(self, request: RequestView) -> int:
        """The request's priority."""
        return request.priority

    def order(self, flow: Hashable, cluster: ClusterView) -> int:
        """There is but one flow."""
        return 0

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """Nothing to remember."""
