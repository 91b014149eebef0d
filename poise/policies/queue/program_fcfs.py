"""Programs first come, first served: a request is ordered by the arrival of its session's first request.

Continuum (arXiv 2511.02230) orders an engine's queue this way, after preempted requests and those with pinned KV;
Autellix (arXiv 2502.13965) argues for programs over requests as well. A program that has begun is done before the next
one takes memory, so that the KV of few programs is live at a time. Without sessions it is first come, first
served. A program of many turns is served ahead of all that began later: a few long ones hold up short ones.
"""

from __future__ import annotations

from poise.core.request import RequestView
from poise.core.view import SequenceView


class ProgramFcfs:
    """Preempted, then pinned, then by the arrival of the program."""

    def queue(self, request: RequestView) -> int:
        """When its program began."""
        return request.begun_at

    def place(self, sequence: SequenceView) -> tuple[bool, bool, int]:
        """Its place in an engine's queue."""
        return not sequence.preemptions, not sequence.pinned, sequence.request.begun_at
