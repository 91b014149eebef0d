"""Waiting requests of a replica, for batchers with their own order that must not scan the whole queue in each step."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, takewhile
from typing import Any, TypeVar

from poise.core.view import LaneView, SequenceView

Place = TypeVar("Place", bound=tuple[Any, ...])


@dataclass(slots=True)
class WaitingSet:
    """Waiting requests by whether their order can be kept.

    fixed: those of which the same is left to compute as long as they wait.  moving: those whose prompts the prefix
    cache may hold more or less of, or whose KV comes from elsewhere; they are examined in each step.  reported: whether
    the engine reports waiting requests; else all are examined.
    """

    fixed: dict[int, SequenceView] = field(default_factory=dict)
    moving: dict[int, SequenceView] = field(default_factory=dict)
    reported: bool = False
    _new: dict[int, SequenceView] = field(default_factory=dict)
    _needs: list[tuple[int, int]] = field(default_factory=list)

    def waits(self, sequence: SequenceView) -> None:
        """A request begins to wait."""
        self.reported = True
        self._new[sequence.id] = sequence

    def waited(self, sequence: SequenceView) -> bool:
        """A request waits no longer; whether it was one of the `fixed`."""
        id = sequence.id
        if self.fixed.pop(id, None) is None:
            del (self._new if id in self._new else self.moving)[id]
            return False
        del self._needs[bisect_left(self._needs, (sequence.need, id))]
        return True

    def arrived(self, lane: LaneView) -> list[SequenceView]:
        """Requests that joined the `fixed` since the last call."""
        found = []
        for id, sequence in self._new.items():
            cached = lane.engine.prefix_caching and (sequence.request.ids or lane.cached(sequence))
            if cached or sequence.swapped or sequence.source >= 0:
                self.moving[id] = sequence
            else:
                self.fixed[id] = sequence
                insort(self._needs, (sequence.need, id))
                found.append(sequence)
        self._new.clear()
        return found

    def looked_at(self, lane: LaneView) -> Iterable[SequenceView]:
        """Requests to examine now: the moving ones, or all where the engine does not report waiting ones."""
        return self.moving.values() if self.reported else lane.queue()

    def all(self, lane: LaneView) -> Iterable[SequenceView]:
        """All waiting requests, unordered."""
        return chain(self.fixed.values(), self.looked_at(lane))

    def in_order(
        self,
        lane: LaneView,
        running: list[Place],
        fixed: Iterable[Place],
        place: Callable[[LaneView, SequenceView, bool], Place],
        full: Callable[[int], bool],
    ) -> Iterable[Place]:
        """Prompts under way and waiting ones, the least place first; the latter as long as any of them can be admitted.

        running, fixed: the places of prompts under way and of the `fixed`, in order.  place: of a waiting one to
        examine.  full: whether no request of that many KV blocks can be admitted any more.
        """
        looked = sorted([place(lane, each, True) for each in self.looked_at(lane)])
        least = self.least(lane)
        waiting: Iterable[Place] = takewhile(lambda _: not full(least), merge(looked, fixed) if looked else fixed)
        return merge(running, waiting) if running else waiting

    def least(self, lane: LaneView) -> int:
        """KV blocks without which none of them can be admitted."""
        if self.moving or not (self._needs and lane.engine.reserve_prompt):
            return 1
        return -(-self._needs[0][0] // lane.engine.block_tokens)
