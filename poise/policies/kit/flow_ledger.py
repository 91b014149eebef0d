"""Waiting requests at the gateway by flow, and the output charged so far to each sent request."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from poise.core.event import Cancelled, Event, Failed, Finished
from poise.core.request import RequestView

_ENDS = frozenset((Finished, Cancelled, Failed))


class Ledger:
    """The state of an order that shares service: a request joins, is sent (perhaps more than once) and ends.

    waiting: requests of each flow that wait, flows without any left out.
    """

    __slots__ = ("_sent", "_waits", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Any, int] = {}
        self._waits: dict[int, Any] = {}
        self._sent: dict[int, tuple[RequestView, int]] = {}

    def join(self, request: RequestView, flow: Hashable) -> bool:
        """A request begins to wait; whether it is the only one of its flow."""
        self._waits[request.id] = flow
        count = self.waiting.get(flow, 0)
        self.waiting[flow] = count + 1
        return not count

    def leave(self, request: int) -> None:
        """A request waits no longer, if it did."""
        flow = self._waits.pop(request, None)
        if flow is None:
            return
        if self.waiting[flow] == 1:
            del self.waiting[flow]
        else:
            self.waiting[flow] -= 1

    def send(self, request: RequestView) -> bool:
        """A request is sent; whether that is for the first time, so that it is to be charged."""
        self.leave(request.id)
        if request.id in self._sent:
            return False
        self._sent[request.id] = request, request.predicted_tokens
        return True

    def settle(self, event: Event) -> tuple[RequestView, int] | None:
        """The request that `event` ends, and how many of its output tokens were not charged yet; None: it ends none."""
        if type(event) not in _ENDS:
            return None
        ended: Any = event
        known = self._sent.get(ended.request)
        return None if known is None else (known[0], ended.output_tokens - known[1])

    def end(self, request: int) -> None:
        """Forget a request."""
        self.leave(request)
        self._sent.pop(request, None)


def check_weights(weights: dict[int, float] | None) -> None:
    """ValueError for a weight that would never give its tenant a turn."""
    for tenant, weight in (weights or {}).items():
        if not isinstance(tenant, int) or not weight > 0:
            raise ValueError(f"weights: {tenant!r}: {weight!r} is no share; give tenants by number a weight above 0")
