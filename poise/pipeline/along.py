"""List scheduling of microbatches along paths of their own."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from poise.pipeline.costs import Durations
from poise.pipeline.op import Kind, Op

Way = Sequence[tuple[int, int]]
"""The (stage, rank) pairs that a microbatch passes."""


def along(ways: Sequence[Way], durations: Durations, ranks: int, alive: int) -> list[list[Op]]:
    """The operations of each rank: a free one takes a backward that is ready, else a forward, the oldest first.

    At most `alive` microbatches of one first rank are on their way; the next one follows when one has come back, so
    whatever the paths are, all can go on.
    """
    return _Along(ways, durations, ranks, alive).rows


class _Along:
    """One run in simulated time."""

    def __init__(self, ways: Sequence[Way], durations: Durations, ranks: int, alive: int) -> None:
        self.ways, self.durations = ways, durations
        self.rows: list[list[Op]] = [[] for _ in range(ranks)]
        self.ready: list[list[tuple[bool, int, int]]] = [[] for _ in range(ranks)]
        self.free = [0] * ranks
        self.waiting: dict[int, list[int]] = {}
        for batch, way in enumerate(ways):
            self.waiting.setdefault(way[0][1], []).append(batch)
        self.events: list[tuple[int, int, bool, int, int]] = []
        for rank, batches in self.waiting.items():
            for batch in batches[:alive]:
                heappush(self.events, (0, rank, True, batch, 0))
            self.waiting[rank] = batches[alive:][::-1]
        while self.events:
            self._instant(self.events[0][0])

    def _instant(self, now: int) -> None:
        """Deliver all that is there at an instant, then let the ranks that it concerns choose."""
        touched = set()
        while self.events and self.events[0][0] == now:
            _, rank, forward, batch, place = heappop(self.events)
            if place >= 0:
                heappush(self.ready[rank], (forward, batch, place))
            touched.add(rank)
        for rank in touched:
            if self.free[rank] <= now and self.ready[rank]:
                self._start(now, rank, *heappop(self.ready[rank]))

    def _start(self, now: int, rank: int, forward: bool, batch: int, place: int) -> None:
        way = self.ways[batch]
        kind, stage = Kind.F if forward else Kind.B, way[place][0]
        end = self.free[rank] = now + self.durations.of(kind, stage, batch, rank)
        self.rows[rank].append(Op(stage, kind, batch))
        heappush(self.events, (end, rank, True, 0, -1))
        if forward and place + 1 == len(way):
            heappush(self.events, (end, rank, False, batch, place))
        elif forward or place:
            there = place + 1 if forward else place - 1
            other = way[there][1]
            heappush(self.events, (end + self.durations.hop(rank, other), other, forward, batch, there))
        elif self.waiting[rank]:
            heappush(self.events, (end, rank, True, self.waiting[rank].pop(), 0))
