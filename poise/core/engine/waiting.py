"""The waiting queue of an engine: first come first served, or in the order of a `Queue` policy."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from poise.core.policy import Preempt, Queue
from poise.core.request import Sequence

if TYPE_CHECKING:
    from poise.core.engine.flows import Flows


class Fcfs(deque[Sequence]):
    """First come, first served; a preempted request goes first again."""

    def push(self, sequence: Sequence) -> bool:
        """Add a sequence; whether it heads the queue now."""
        self.append(sequence)
        return len(self) == 1

    def push_front(self, sequence: Sequence) -> None:
        """Add a sequence that was preempted."""
        self.appendleft(sequence)

    def sort_anew(self) -> None:
        """No effect: there are no keys."""


class Ordered:
    """Sorted by a policy's key, then arrival, then id; a preempted request is placed anew."""

    __slots__ = ("_items", "_key", "_places")

    def __init__(self, policy: Queue | Preempt) -> None:
        place = getattr(policy, "place", None)
        self._key: Callable[[Sequence], Any] = place or (lambda sequence: policy.queue(sequence.request))  # type: ignore[union-attr]
        self._items: list[tuple[Any, int, int, Sequence]] = []
        self._places: dict[int, tuple[Any, int, int]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Sequence]:
        return (item[3] for item in self._items)

    def push(self, sequence: Sequence) -> bool:
        """Add a sequence; whether it heads the queue now."""
        request = sequence.request
        place = self._places[request.id] = self._key(sequence), request.arrived_at, request.id
        insort(self._items, (*place, sequence))
        return self._items[0][3] is sequence

    push_front = push

    def place(self, sequence: Sequence) -> tuple[Any, int, int]:
        """The sort key of a waiting sequence."""
        return self._places[sequence.id]

    def sort_anew(self) -> None:
        """Sort all anew by the policy's current keys."""
        waiting = [item[3] for item in self._items]
        self._items.clear()
        for sequence in waiting:
            self.push(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence."""
        place = bisect_left(self._items, self._places.pop(sequence.id))
        assert self._items[place][3] is sequence
        del self._items[place]


class Watched:
    """A queue that notifies the batcher of each request that begins or ceases to wait, for an order of its own.

    Places are those of the queue's order: numbers where the first to come is the first served, keys where a policy
    sorts, and None where its order follows what was served.
    """

    __slots__ = ("_batcher", "_first", "_last", "_queue")

    def __init__(self, queue: Fcfs | Ordered | Flows, batcher: Any) -> None:
        self._queue = queue
        self._batcher = batcher
        self._first = self._last = 0

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._queue)

    def push(self, sequence: Sequence) -> bool:
        """Add a sequence; whether it heads the queue now."""
        self._last += 1
        heads = self._queue.push(sequence)
        self._batcher.waits(sequence, self._place(sequence, self._last))
        return heads

    def push_front(self, sequence: Sequence) -> None:
        """Add a sequence that was preempted."""
        self._first -= 1
        self._queue.push_front(sequence)
        self._batcher.waits(sequence, self._place(sequence, self._first))

    def sort_anew(self) -> None:
        """Others may go first now: notify of all again."""
        self._queue.sort_anew()
        if isinstance(self._queue, Ordered):
            for sequence in self._queue:
                self._batcher.waited(sequence)
                self._batcher.waits(sequence, self._queue.place(sequence))

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence."""
        self._queue.remove(sequence)
        self._batcher.waited(sequence)

    def _place(self, sequence: Sequence, number: int) -> Any:
        if isinstance(self._queue, Ordered):
            return self._queue.place(sequence)
        return number if isinstance(self._queue, Fcfs) else None
