"""Directed load without engines: each request takes a time that is given, and ends at one instant go by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from poise.workload import Workload
from poise.workload.director import Director


@dataclass
class Played:
    """When each row arrived and ended, by row, and what decided."""

    director: Director
    arrived: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)


def played(workload: Workload, took: Sequence[int]) -> Played:
    """Play a workload in which row i takes `took[i]` picoseconds from its arrival."""
    assert workload.directed is not None
    done = Played(workload.directed())
    heap: list[tuple[int, int]] = []

    def send(sends: object) -> None:
        for row, at in sends:  # type: ignore[attr-defined]
            assert row < 0 or row not in done.arrived, "no row is sent twice"
            assert at >= now, "nothing is sent into the past"
            if row >= 0:
                done.arrived[row] = at
            heappush(heap, (at + took[row] if row >= 0 else at, row))

    now = 0
    send(done.director.begin())
    while heap:
        now, row = heappop(heap)
        if row < 0:
            send(done.director.woken(now))
        else:
            done.ended[row] = now
            send(done.director.ended(row, now, True))
    return done
