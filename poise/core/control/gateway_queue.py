"""The requests that wait at the gateway: one queue for each group; groups do not wait for one another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import heapify, heappop, heapreplace

from poise.core.control.flow_queue import Fifo, OrderedQueue
from poise.core.policy import Order
from poise.core.request import RequestView
from poise.core.view import ClusterView


def _order(request: RequestView) -> tuple[int, int]:
    return request.arrived_at, request.id


class GatewayQueue:
    """First come, first served within a group, or in the order of a policy; the head of a group is never overtaken.

    group: names a request's group (its model, or what the router's own `group` says).
    order: the policy, which reads `cluster`.  queues: by group; empty when no request is held.
    """

    __slots__ = ("_cluster", "_group_of", "_order", "group", "queues")

    def __init__(
        self,
        group: Callable[[RequestView], Hashable],
        order: Order | None = None,
        cluster: ClusterView | None = None,
    ) -> None:
        self.group = group
        self._order = order
        self._cluster = cluster
        self.queues: dict[Hashable, Fifo | OrderedQueue] = {}
        self._group_of: dict[int, Hashable] = {}

    def __bool__(self) -> bool:
        return bool(self.queues)

    def __len__(self) -> int:
        return len(self._group_of)

    def __iter__(self) -> Iterator[RequestView]:
        """All, by arrival, then id."""
        return iter(sorted((request for queue in self.queues.values() for request in queue), key=_order))

    def regroup(self, group: Callable[[RequestView], Hashable], order: Order | None) -> None:
        """Regroup all waiting requests, or reorder them, as if they had arrived in the order of their arrival times."""
        waiting = list(self)
        self.group, self._order = group, order
        self.queues.clear()
        self._group_of.clear()
        for request in waiting:
            self.add(request)

    def join_queue(self, request: RequestView) -> bool:
        """Queue a request behind others of its group; False where none is held (it may be decided at once)."""
        group = self.group(request)
        queue = self.queues.get(group)
        if queue is None:
            return False
        queue.append(request)
        self._group_of[request.id] = group
        return True

    def leads(self, request: RequestView) -> bool:
        """Whether a held request goes next in its group."""
        return self.queues[self.group(request)].head is request

    def add(self, request: RequestView) -> None:
        """Hold a request."""
        self._queue(request).append(request)

    def put_back(self, requests: Iterable[RequestView]) -> None:
        """Hold requests that were sent before, oldest first ahead of the others in their groups."""
        for request in sorted(requests, key=_order, reverse=True):
            self._queue(request).appendleft(request)

    def remove(self, request: int) -> RequestView | None:
        """Take out the request of this id, if it is held."""
        if request not in self._group_of:
            return None
        group = self._group_of.pop(request)
        queue = self.queues[group]
        found = queue.remove(request)
        if not queue:
            del self.queues[group]
        return found

    def ask(self, decide: Callable[[RequestView], bool]) -> None:
        """Offer the groups' heads, oldest first, to `decide`, until it holds (False) the head of each group."""
        if len(self.queues) == 1:  # mostly there is but one group
            (group,) = self.queues
            self._ask_one(group, decide)
            return
        heads = [(_order(queue.head), place, group) for place, (group, queue) in enumerate(self.queues.items())]
        heapify(heads)
        while heads:
            _, place, group = heads[0]
            queue = self.queues[group]
            head = queue.head
            if not decide(head):
                heappop(heads)
                continue
            queue.take(head)
            del self._group_of[head.id]
            if queue:
                heapreplace(heads, (_order(queue.head), place, group))
            else:
                del self.queues[group]
                heappop(heads)

    def _ask_one(self, group: Hashable, decide: Callable[[RequestView], bool]) -> None:
        queue = self.queues[group]
        while queue:
            head = queue.head
            if not decide(head):
                return
            queue.take(head)
            del self._group_of[head.id]
        del self.queues[group]

    def _queue(self, request: RequestView) -> Fifo | OrderedQueue:
        group = self._group_of[request.id] = self.group(request)
        queue = self.queues.get(group)
        if queue is None:
            if self._order is None:
                queue = Fifo()
            else:
                assert self._cluster is not None, "an order needs the cluster's view"
                queue = OrderedQueue(self._order, self._cluster)
            self.queues[group] = queue
        return queue
