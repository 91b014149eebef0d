"""An admission that is easy to provoke."""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.action import Reject
from poise.core.request import RequestView
from poise.core.view import ClusterView


class Shed:
    """Turns away whoever asks with priority 9."""

    needs: tuple[str, ...] = ()

    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int] | Reject:
        return Reject("as you wish", 2 * 10**12) if request.priority == 9 else able
