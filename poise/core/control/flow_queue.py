"""A queue of the gateway in the order of a policy: several flows, of which the policy selects the first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from poise.core.policy import Order
from poise.core.request import RequestView
from poise.core.view import ClusterView

_Item = tuple[Any, int, int, int, RequestView, Hashable]
"""Key, arrival, id, a number that no other item has, the request and its flow."""


class Fifo:
    """First come, first served; a request that was sent and returned goes first again."""

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: OrderedDict[int, RequestView] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[RequestView]:
        return iter(self._requests.values())

    @property
    def head(self) -> RequestView:
        """The next request."""
        return next(iter(self._requests.values()))

    def append(self, request: RequestView) -> None:
        """Queue a request behind the others."""
        self._requests[request.id] = request

    def appendleft(self, request: RequestView) -> None:
        """Queue a request ahead of the others."""
        self._requests[request.id] = request
        self._requests.move_to_end(request.id, last=False)

    def take(self, head: RequestView) -> None:
        """Take the head out."""
        del self._requests[head.id]

    def remove(self, request: int) -> RequestView:
        """Take any request out, by its id."""
        return self._requests.pop(request)


class _Flow(list[_Item]):
    """A heap whose first item is queued; `gone`: how many of the others were taken out but are still in the heap."""

    __slots__ = ("gone",)

    def __init__(self) -> None:
        self.gone = 0


class OrderedQueue:
    """The held requests of one group in the order of a policy.

    Within a flow the least key goes first, then the earliest arrival, then the least id; among flows the one of the
    least rank, then the one whose head arrived first.
    """

    __slots__ = ("_cluster", "_flows", "_items", "_order", "_serial")

    def __init__(self, order: Order, cluster: ClusterView) -> None:
        self._order = order
        self._cluster = cluster
        self._flows: dict[Hashable, _Flow] = {}
        self._items: dict[int, _Item] = {}
        self._serial = 0

    def __bool__(self) -> bool:
        return bool(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[RequestView]:
        return (item[4] for item in self._items.values())

    @property
    def head(self) -> RequestView:
        """The next request."""
        flows, rank, cluster = self._flows, self._order.order, self._cluster
        if len(flows) == 1:
            (heap,) = flows.values()
        else:
            first = min(flows, key=lambda flow: (rank(flow, cluster), flows[flow][0][1:3]))
            heap = flows[first]
        return heap[0][4]

    def append(self, request: RequestView) -> None:
        """Queue a request in its place."""
        key, flow = self._order.key(request), self._order.flow(request)
        self._serial += 1
        item = (key, request.arrived_at, request.id, self._serial, request, flow)
        self._items[request.id] = item
        heap = self._flows.get(flow)
        if heap is None:
            heap = self._flows[flow] = _Flow()
        heappush(heap, item)

    def appendleft(self, request: RequestView) -> None:
        """Queue a request that was sent before: it is placed anew."""
        self.append(request)

    def take(self, head: RequestView) -> None:
        """Take the head out, even if others go before it by now."""
        flow = self._items.pop(head.id)[5]
        heap = self._flows[flow]
        heappop(heap)
        if heap.gone or not heap:
            self._uncover(flow, heap)

    def remove(self, request: int) -> RequestView:
        """Take any request out, by its id: at the top of its flow now, elsewhere when it gets there."""
        item = self._items.pop(request)
        flow = item[5]
        heap = self._flows[flow]
        heap.gone += 1
        if heap[0] is item:
            self._uncover(flow, heap)
        elif heap.gone > len(heap) // 2:
            heap[:] = [each for each in heap if self._queued(each)]
            heap.gone = 0
            heapify(heap)
        return item[4]

    def _uncover(self, flow: Hashable, heap: _Flow) -> None:
        """Remove taken requests from the top of a flow."""
        while heap and not self._queued(heap[0]):
            heappop(heap)
            heap.gone -= 1
        if not heap:
            del self._flows[flow]

    def _queued(self, item: _Item) -> bool:
        return self._items.get(item[2]) is item
