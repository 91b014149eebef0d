"""Between which computations of its rank a task of any lane runs, from the order that holds for all durations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from poise.program.index import Index

NEVER = 1 << 62
"""The instant behind all computations."""

Clocks = NDArray[np.int32]


class Bounds:
    """Instants in computations of a rank: computation k of the lane `compute` starts at 2k and ends at 2k + 1.

    tasks: those whose bounds are wanted. If all are computations, their places say all; otherwise vector clocks are
    followed through all lanes and ranks (Mattern, "Virtual time and global states", 1989).
    """

    def __init__(self, index: Index, order: Sequence[int], tasks: Iterable[int]) -> None:
        self.index = index
        compute = {lane.rank: place for place, lane in enumerate(index.lanes) if lane.name == "compute"}
        self.first = {rank: index.first[place] for rank, place in compute.items()}
        self.last = {rank: index.first[place + 1] for rank, place in compute.items()}
        self.own = [index.tasks[number].lane == "compute" for number in range(len(index.tasks))]
        if all(self.own[each] for each in tasks):
            self.after: Clocks | None = None
            self.before: Clocks | None = None
        else:
            edges = _edges(index)
            self.after = self._clocks(order, edges, np.maximum, -1)
            self.before = self._clocks([*reversed(order)], _turned(edges), np.minimum, len(order))

    def begin(self, number: int) -> int:
        """The earliest instant at which a task may start."""
        rank = self.index.tasks[number].rank
        if self.own[number]:
            return 2 * (number - self.first[rank])
        assert self.after is not None
        at = int(self.after[number, rank])
        return 2 * at + 1 if at >= 0 else 0

    def end(self, number: int) -> int:
        """The latest instant at which it may end."""
        rank = self.index.tasks[number].rank
        if self.own[number]:
            return 2 * (number - self.first[rank]) + 1
        assert self.before is not None
        at = int(self.before[number, rank])
        return 2 * at if at < len(self.own) else NEVER

    def task(self, rank: int, instant: int) -> int:
        """The computation that runs at an instant, or −1."""
        number = self.first.get(rank, 0) + instant // 2
        return number if instant >= 0 and number < self.last.get(rank, 0) else -1

    def _clocks(self, order: Sequence[int], edges: list[list[int]], join: np.ufunc, blank: int) -> Clocks:
        """For each task and rank the last (first) computation there that comes before (behind) it."""
        index, ranks = self.index, self.index.program.ranks
        found = np.full((len(index.tasks), ranks), blank, dtype=np.int32)
        own = [number - self.first[task.rank] if self.own[number] else -1 for number, task in enumerate(index.tasks)]
        for number in order:
            row = found[number]
            for other in edges[number]:
                join(row, found[other], out=row)
                if own[other] >= 0:
                    rank = index.tasks[other].rank
                    row[rank] = join(row[rank], own[other])
        return found


def _edges(index: Index) -> list[list[int]]:
    """For each task those that have ended when it starts; members of a collective share theirs."""
    found = []
    for number, needs in enumerate(index.needs):
        row = list(needs)
        if number > index.first[index.lane[number]]:
            row.append(number - 1)
        if index.source[number] >= 0:
            row.append(index.source[number])
        found.append(row)
    for members in index.members:
        shared = sorted({each for member in members for each in found[member]})
        for member in members:
            found[member] = shared
    return found


def _turned(edges: list[list[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in edges]
    for number, row in enumerate(edges):
        for each in row:
            found[each].append(number)
    return found
