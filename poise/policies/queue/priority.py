"""Priority scheduling as in vLLM (`--scheduling-policy priority`): the lowest number first, then by arrival."""

from __future__ import annotations

from poise.core.request import RequestView


class Priority:
    """Admit by the request's `priority`, lowest first."""

    def queue(self, request: RequestView) -> int:
        """The request's priority."""
        return request.priority
