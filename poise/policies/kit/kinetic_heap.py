"""A kinetic tournament: the least of many values that fall at different rates, without scanning them."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from poise.core.units import NEVER

EMPTY = -1


class KineticHeap:
    """Values (at − now) / pace of several ids, in order at any time not before the last query.

    A kinetic tournament (Basch, Guibas and Hershberger, "Data structures for mobile data", SODA 1997): a binary tree
    whose every node holds the winner below it and the instant from which that may be another. So only the matches whose
    instant has come are played again; an addition, a removal and a next value take O(log n). Ties go by id.
    """

    __slots__ = ("_at", "_free", "_ids", "_now", "_pace", "_size", "_slots", "_until", "_winner")

    def __init__(self) -> None:
        self._now = 0
        self._slots: dict[int, int] = {}
        self._ids: list[int] = []
        self._at: list[int] = []
        self._pace: list[int] = []
        self._free: list[int] = []
        self._winner: list[int] = []  # by node: the root is 1, the children of k are 2k and 2k + 1, leaves come last
        self._until: list[int] = []
        self._size = 0
        self._grow(8)

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, id: int) -> bool:
        return id in self._slots

    def add(self, id: int, at: int, pace: int) -> None:
        """Add a value that is 0 at the instant `at` and falls by one in `pace` (1 or more)."""
        if not self._free:
            self._grow(2 * self._size)
        slot = self._slots[id] = self._free.pop()
        self._ids[slot], self._at[slot], self._pace[slot] = id, at, pace
        self._set(slot, slot)

    def remove(self, id: int) -> None:
        """Take a value out."""
        slot = self._slots.pop(id)
        self._free.append(slot)
        self._set(slot, EMPTY)

    def order(self, now: int) -> Iterator[tuple[float, int]]:
        """Values and their ids, the least first; to be left when something is added or removed."""
        self._now = now
        self._replay(1)
        size, winner = self._size, self._winner
        heap: list[tuple[float, int, int]] = []
        self._offer(heap, 1)
        while heap:
            value, id, node = heappop(heap)
            yield value, id
            slot = self._slots[id]
            while node < size:  # down to its leaf: each value that lost to it may be next
                node = 2 * node if winner[2 * node] == slot else 2 * node + 1
                self._offer(heap, node ^ 1)

    def _offer(self, heap: list[tuple[float, int, int]], node: int) -> None:
        slot = self._winner[node]
        if slot != EMPTY:
            heappush(heap, ((self._at[slot] - self._now) / self._pace[slot], self._ids[slot], node))

    def _grow(self, size: int) -> None:
        """Make room for `size` values, a power of two, and play all matches."""
        more = size - self._size
        self._free += range(size - 1, self._size - 1, -1)
        self._ids += [0] * more
        self._at += [0] * more
        self._pace += [1] * more
        leaves = self._winner[self._size :] + [EMPTY] * more
        self._size = size
        self._winner = [EMPTY] * size + leaves
        self._until = [NEVER] * (2 * size)
        for node in range(size - 1, 0, -1):
            self._play(node)

    def _set(self, slot: int, winner: int) -> None:
        """Put a value, or none, on a leaf, and play the matches up to the root."""
        node = self._size + slot
        self._winner[node] = winner
        while node > 1:
            node //= 2
            self._play(node)

    def _replay(self, node: int) -> None:
        """Play the matches at and below a node whose instant has come."""
        if self._until[node] <= self._now:
            self._replay(2 * node)
            self._replay(2 * node + 1)
            self._play(node)

    def _play(self, node: int) -> None:
        """Match the winners of both children, and return when the result may change."""
        until, winner = self._until, self._winner
        one, other = winner[2 * node], winner[2 * node + 1]
        ends = min(until[2 * node], until[2 * node + 1])
        if one == EMPTY or other == EMPTY:
            one = max(one, other)
        else:
            at, pace, now = self._at, self._pace, self._now
            place, against = (at[one] - now) * pace[other], (at[other] - now) * pace[one]
            if (against, self._ids[other]) < (place, self._ids[one]):
                one, other = other, one
            if pace[other] < pace[one]:  # it falls faster, and will have caught up then
                ends = min(ends, -((at[one] * pace[other] - at[other] * pace[one]) // (pace[one] - pace[other])))
        winner[node], until[node] = one, ends
