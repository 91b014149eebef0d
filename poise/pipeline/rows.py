"""What `walk` walks over: the rows of the ranks, and behind them one for each link of copies and for each barrier."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np

from poise.pipeline.copies import reloads, streams
from poise.pipeline.graph import Graph, Ints
from poise.pipeline.op import Kind
from poise.pipeline.walk import walk

OP, WAIT, COPY, BARRIER = range(4)


@dataclass(frozen=True)
class Entries:
    """The operation of each entry, flat over all rows."""

    role: Ints
    """OP; WAIT: no time, before an operation that waits for several things; COPY of an OFFLOAD or RELOAD; BARRIER."""
    number: Ints
    """The operation in the graph; the number of the barrier."""
    message: Ints
    """The operation whose message from another rank is waited for, or −1."""
    opens: Ints
    """The last entry of each barrier."""


@dataclass(frozen=True)
class Rows:
    """`first` and `needs` as `walk` takes them; without `entries` they are those of the graph's operations."""

    graph: Graph
    first: list[int]
    needs: list[int]
    entries: Entries | None = None

    def columns(
        self, ticks: list[int], lags: list[int], barrier: int = 0
    ) -> tuple[list[int], list[int]]:  # fmt: skip
        """Ticks and lags of all entries from those of operations; those of OFFLOAD and RELOAD are their copies'."""
        if self.entries is None:
            return ticks, lags
        role = self.entries.role
        number = np.where(role == BARRIER, 0, self.entries.number)
        asks = np.isin(self.graph.kind[number], (Kind.OFFLOAD, Kind.RELOAD))
        takes, comes = np.array(ticks, dtype=object), np.array(lags, dtype=object)
        took = np.where(((role == OP) & ~asks) | (role == COPY), takes[number], 0)
        took[self.entries.opens] = barrier
        late = np.where(self.entries.message >= 0, comes[self.entries.message], 0)
        return took.tolist(), late.tolist()

    def name(self, index: int) -> str:
        """An entry in words."""
        role, number = self._entry(index)
        if role == BARRIER:
            needed = self.graph.at(self.graph.joins[number].needed[0])[2]
            return f"the barrier behind {needed.kind.name}{needed.microbatch}"
        return f"the copy of {self.graph.at(number)[2]}" if role == COPY else self.graph.place(number)

    def short(self, index: int) -> str:
        """The same without the place."""
        role, number = self._entry(index)
        return str(self.graph.at(number)[2]) if role <= WAIT else self.name(index)

    def cycle(self) -> str | None:
        """The ring of operations that wait for each other, so that nothing can go on; None if all can run."""
        zeros = [0] * len(self.needs)
        *_, stopped = walk(self.first, self.needs, zeros, zeros)
        for row, index in enumerate(stopped):
            if index < self.first[row + 1]:
                return self._ring(stopped, index)
        return None

    def _entry(self, index: int) -> tuple[int, int]:
        if self.entries is None:
            return OP, index
        return int(self.entries.role[index]), int(self.entries.number[index])

    def _ring(self, stopped: list[int], index: int) -> str:
        seen: list[int] = []
        while index not in seen:
            seen.append(index)
            index = stopped[bisect_right(self.first, self.needs[index]) - 1]
        ring = seen[seen.index(index) :]
        ranks = len(self.graph.first) - 1
        begin = next(at for at, each in enumerate(ring) if each < self.first[ranks])
        ring = ring[begin:] + ring[:begin]
        parts = [f"{self.name(each)} waits for {self.short(self.needs[each])}" for each in ring]
        last = self.needs[ring[-1]]
        return (
            f"deadlock: {', '.join(parts)}, which comes after {self.name(ring[0])}; move {self.short(last)} before "
            f"{self.short(ring[0])} on rank {self.graph.rank[self._entry(last)[1]]}"
        )


def rows_of(graph: Graph, shared_copy: bool = False) -> Rows:
    """The rows of a graph. Where an operation waits for several things, waits of no time precede it."""
    if not graph.beside:
        return Rows(graph, graph.first, graph.needs.tolist())
    count, joins = len(graph.kind), graph.joins
    copies = streams(graph, shared_copy)
    lengths = [len(link) for link in copies] + [len(join.needed) for join in joins]
    waiter, source = _sources(graph)
    waits = np.bincount(waiter, minlength=count)
    more = np.concatenate([[0], np.cumsum(np.maximum(waits - 1, 0))])
    place = np.arange(count) + more[1:]
    ranks = np.array(graph.first) + more[graph.first]
    first = [*ranks.tolist()[:-1], *accumulate(lengths, initial=int(ranks[-1]))]
    role, number = np.full((2, first[-1]), -1)
    role[: ranks[-1]] = WAIT
    role[place], number[place] = OP, np.arange(count)
    part = np.arange(len(waiter)) - np.repeat(np.cumsum(waits) - waits, waits)
    entry = place[waiter] - (waits[waiter] - 1 - part)
    number[entry] = waiter
    copied = np.array([op for link in copies for op, _ in link], dtype=np.int64)
    begun = np.array([start for link in copies for _, start in link], dtype=np.int64)
    asides = slice(int(ranks[-1]), int(ranks[-1]) + len(copied))
    role[asides], number[asides] = COPY, copied
    opens = np.array(first[len(first) - len(joins) :], dtype=np.int64) - 1
    role[asides.stop :] = BARRIER
    number[asides.stop :] = np.repeat(np.arange(len(joins)), lengths[len(copies) :])
    ends = np.concatenate([place, np.zeros(count, dtype=np.int64), opens])
    ends[count + copied] = np.arange(asides.start, asides.stop)
    needs, message = np.full((2, first[-1]), -1)
    needs[entry] = ends[source]
    message[entry] = np.where(source < count, waiter, -1)
    needs[asides] = place[begun]
    needs[asides.stop :] = place[list(chain.from_iterable(join.needed for join in joins))]
    return Rows(graph, first, needs.tolist(), Entries(role, number, message, opens))


def _sources(graph: Graph) -> tuple[Ints, Ints]:
    """Each operation that waits, and for what: an operation i, the copy of i (as n + i) or barrier j (2n + j)."""
    count = len(graph.kind)
    there = np.flatnonzero(graph.waits >= 0)
    barriers = [(index, 2 * count + number) for number, join in enumerate(graph.joins) for index in join.waiters]
    copies = [(back, count + index) for back, index in reloads(graph).items()]
    away = graph.beside[Kind.OFFLOAD]
    copies += ((index, count + index) for index in away[away >= 0].tolist())
    more = np.array([*barriers, *copies], dtype=np.int64).reshape(-1, 2)
    waiter = np.concatenate([there, more[:, 0]])
    order = np.argsort(waiter, kind="stable")
    return waiter[order], np.concatenate([graph.waits[there], more[:, 1]])[order]
