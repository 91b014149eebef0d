"""A queue of the gateway in the order of a policy: several flows, of which the policy says which goes first."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from poise.core.policy import Order
from poise.core.request import RequestView
from poise.core.view import ClusterView

_Item = tuple[Any, int, int, RequestView]


class Fifo(deque[RequestView]):
    """First come, first served; who was sent and came back goes first again."""

    @property
    def head(self) -> RequestView:
        """Who goes next."""
        return self[0]

    def take(self, head: RequestView) -> None:
        """Take the head out."""
        self.popleft()


class Line:
    """The held requests of one group in the order of a policy.

    Within a flow the least key goes first, then the earliest arrival, then the least id; among flows the one of the
    least rank, then the one whose head arrived first.
    """

    __slots__ = ("_cluster", "_flow_of", "_flows", "_order")

    def __init__(self, order: Order, cluster: ClusterView) -> None:
        self._order = order
        self._cluster = cluster
        self._flows: dict[Hashable, list[_Item]] = {}
        self._flow_of: dict[int, Hashable] = {}

    def __bool__(self) -> bool:
        return bool(self._flows)

    def __len__(self) -> int:
        return len(self._flow_of)

    def __iter__(self) -> Iterator[RequestView]:
        return (item[3] for heap in self._flows.values() for item in heap)

    @property
    def head(self) -> RequestView:
        """Who goes next."""
        flows, rank, cluster = self._flows, self._order.rank, self._cluster
        if len(flows) == 1:
            (heap,) = flows.values()
        else:
            first = min(flows, key=lambda flow: (rank(flow, cluster), flows[flow][0][1:3]))
            heap = flows[first]
        return heap[0][3]

    def append(self, request: RequestView) -> None:
        """Queue a request where it belongs."""
        item = (self._order.key(request), request.arrived_at, request.id, request)
        flow = self._flow_of[request.id] = self._order.flow(request)
        heappush(self._flows.setdefault(flow, []), item)

    def appendleft(self, request: RequestView) -> None:
        """Queue a request that was sent before: it finds its own place again."""
        self.append(request)

    def take(self, head: RequestView) -> None:
        """Take the head out, even if others go before it since it was looked at."""
        flow = self._flow_of.pop(head.id)
        heap = self._flows[flow]
        heappop(heap)
        if not heap:
            del self._flows[flow]

    def remove(self, request: RequestView) -> None:
        """Take any request out."""
        flow = self._flow_of.pop(request.id)
        heap = [item for item in self._flows[flow] if item[2] != request.id]
        heapify(heap)
        if heap:
            self._flows[flow] = heap
        else:
            del self._flows[flow]
