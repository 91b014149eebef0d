"""An engine's waiting queue ordered by past service: requests queue in flows, and one flow goes first.

The service counts of flows are updated only when the set of requests that wait, run or compute a prompt has changed.
In between nothing that did not fit can fit, so that a held batch need not look at every step, and the slow
reference, which does look, finds the same order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from poise.core.policy import FlowQueue
from poise.core.request import RequestView, Sequence

if TYPE_CHECKING:
    from poise.core.engine.replica import Replica

Item = tuple[Any, int, int, Sequence]
"""Key, arrival, id, and the sequence."""


class Flows:
    """The flow of the least rank first; within a flow by key, then arrival, then id."""

    __slots__ = ("_at", "_came", "_charged", "_items", "_places", "_policy", "_replica", "_stale")

    def __init__(self, policy: FlowQueue, replica: Replica) -> None:
        self._policy = policy
        self._replica = replica
        self._items: dict[Hashable, list[Item]] = {}
        self._places: dict[int, tuple[Hashable, Item]] = {}
        self._came: dict[Hashable, RequestView] = {}  # flows that have begun to wait, by what came first
        self._charged: dict[Sequence, int] = {}  # who was admitted, and the output tokens that are charged
        self._stale = False
        self._at = 0

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Sequence]:
        """All, in no order: readers must not update the service counts."""
        return (item[3] for _, item in self._places.values())

    def ordered(self) -> Iterator[Sequence]:
        """In order, as if each were admitted before the next is looked for."""
        if self._stale:
            self._settle()
        rank, at = self._policy.rank, self._at
        ahead: dict[Hashable, list[RequestView]] = {flow: [] for flow in self._items}
        heads = [(rank(flow, (), at), *items[0][:3], 0, flow) for flow, items in self._items.items()]
        heapify(heads)
        while heads:
            *_, place, flow = heappop(heads)
            items = self._items[flow]
            sequence = items[place][3]
            if place + 1 < len(items):
                if sequence not in self._charged:
                    ahead[flow].append(sequence.request)
                heappush(heads, (rank(flow, ahead[flow], at), *items[place + 1][:3], place + 1, flow))
            yield sequence

    def push(self, sequence: Sequence) -> bool:
        """Add a sequence; whether it may head the queue now."""
        request = sequence.request
        flow = self._policy.flow(request)
        item = self._policy.queue(request), request.arrived_at, request.id, sequence
        items = self._items.get(flow)
        if items is None:
            items = self._items[flow] = []
            self._came[flow] = request
        insort(items, item)
        self._places[request.id] = flow, item
        heads = items[0] is item
        self._stale = self._stale or heads
        return heads

    push_front = push

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence."""
        flow, item = self._places.pop(sequence.id)
        items = self._items[flow]
        del items[bisect_left(items, item)]
        if not items:
            del self._items[flow]
            self._came.pop(flow, None)
        self._stale = True

    def admit(self, sequence: Sequence, prompt_tokens: int) -> None:
        """It runs from now on: charge its prompt tokens computed here, unless charged before a preemption."""
        if sequence in self._charged:
            prompt_tokens = 0
        else:
            self._charged[sequence] = sequence.produced
        self._policy.charge(sequence.request, prompt_tokens, 0)

    def end(self, sequence: Sequence) -> None:
        """It has left: charge its last tokens."""
        before = self._charged.pop(sequence, sequence.produced)
        if sequence.produced > before:
            self._policy.charge(sequence.request, 0, sequence.produced - before)
        self._stale = True

    def stir(self) -> None:
        """Others may fit now: update the counts before the next look."""
        self._stale = True

    def sort_anew(self) -> None:
        """Others may run now, by a review of the preemption policy."""
        self._stale = True

    def _settle(self) -> None:
        """Charge what was made, then notify of the flows that began to wait, in their order."""
        self._stale, self._at = False, self._replica.space.now
        for sequence, before in self._charged.items():
            made = self._replica.made(sequence, self._at, True)
            if made > before:
                self._charged[sequence] = made
                self._policy.charge(sequence.request, 0, made - before)
        came, self._came = self._came, {}
        waiting = [flow for flow in self._items if flow not in came]
        for flow, request in came.items():
            self._policy.joined(request, waiting)
            waiting.append(flow)
