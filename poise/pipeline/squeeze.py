"""Move operations into the gaps of a schedule, from its begin on or from its end on, at the true times.

After forward-backward improvement of project scheduling (Li and Willis, European Journal of Operational Research,
1992): a schedule that was pressed against its end and then against its begin is seldom longer, often shorter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from poise.pipeline.costs import Durations
from poise.pipeline.graph import Graph, Ints, graph_of
from poise.pipeline.op import I, Kind, Op, W
from poise.pipeline.schedule import Schedule
from poise.pipeline.time import lags_of, ticks_of
from poise.pipeline.walk import walk

Orders = list[list[int]]
"""Operations of each rank in order, by their index in the graph."""

Value = tuple[int, int]
"""Makespan and largest bubble in a span, in ticks, the more important one first."""


@dataclass(frozen=True)
class Net:
    """Operations and what each waits for, apart from their order on the ranks.

    An operation waits for `prior` on its own rank and for `need`, whose result is there `lag` ticks after its end; −1
    for none. `follows` and `user` are the other ends of these, `away` the lag to the user. `change` is what it takes of
    its rank's `room`, when it starts, or gives back (negative), when it ends.
    """

    rank: list[int]
    ticks: list[int]
    change: list[int]
    prior: list[int]
    follows: list[int]
    need: list[int]
    user: list[int]
    lag: list[int]
    away: list[int]
    room: Sequence[int]

    def mirrored(self) -> Net:
        """The same with time running backwards."""
        return replace(
            self, change=[-each for each in self.change], prior=self.follows, follows=self.prior, need=self.user,
            user=self.need, lag=self.away, away=self.lag,
        )  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A schedule with the times and the room under which it is to be improved.

    An activation of a stage takes `size` of its rank's room, and `kept` of that until its weight gradient has ended.
    """

    schedule: Schedule
    durations: Durations
    size: int
    kept: int
    room: Sequence[int]
    by: str

    @cached_property
    def graph(self) -> Graph:
        """Its operations."""
        return graph_of(self.schedule)

    @cached_property
    def orders(self) -> Orders:
        """As the schedule has them."""
        return [list(range(low, high)) for low, high in pairwise(self.graph.first)]

    @cached_property
    def net(self) -> Net:
        """Its operations without their order."""
        graph, count = self.graph, self.graph.first[-1]
        prior, follows = np.full(count, -1), np.full(count, -1)
        for one, two in ((graph.forward, graph.gradient), (graph.gradient, graph.weight)):
            pairs = np.flatnonzero(one >= 0)
            prior[two[pairs]], follows[one[pairs]] = one[pairs], two[pairs]
        lag = np.array(self._lag, dtype=object)
        user, away = np.full(count, -1), np.zeros(count, dtype=object)
        waits = np.flatnonzero(graph.needs >= 0)
        user[graph.needs[waits]], away[graph.needs[waits]] = waits, lag[waits]
        return Net(
            rank=graph.rank.tolist(), ticks=self._ticks, change=self._change.tolist(),
            prior=prior.tolist(), follows=follows.tolist(), need=graph.needs.tolist(), user=user.tolist(),
            lag=self._lag, away=away.tolist(), room=self.room,
        )  # fmt: skip

    @cached_property
    def fits(self) -> bool:
        """Whether no rank ever holds more than its room."""
        levels = np.cumsum(self._change)
        base = np.concatenate([[0], levels])[self.graph.first[:-1]]
        return bool((levels - base[self.graph.rank] <= np.array(self.room)[self.graph.rank]).all())

    @cached_property
    def _change(self) -> Ints:
        return np.array([self.size, self.kept - self.size, -self.kept])[self.graph.kind]

    @cached_property
    def _lag(self) -> list[int]:
        return lags_of(self.graph, self.durations)

    @cached_property
    def _ticks(self) -> list[int]:
        return ticks_of(self.graph, self.durations)

    @cached_property
    def times(self) -> tuple[list[int], list[int]]:
        """Starts and ends of its operations; −1 ends those of a schedule that cannot run."""
        starts, ends, _ = walk(self.graph.first, self.graph.needs.tolist(), self._ticks, self._lag)
        return starts, ends

    @property
    def runs(self) -> bool:
        """Whether the orders are possible ones."""
        return min(self.times[1]) >= 0

    @cached_property
    def value(self) -> Value:
        """How long the schedule takes."""
        return self._value(self.orders, *self.times)

    def _value(self, orders: Orders, starts: Mapping[int, int] | list[int], ends: list[int]) -> Value:
        last = max(ends[order[-1]] for order in orders)
        busy = self._busy
        idle = max(ends[order[-1]] - starts[order[0]] - work for order, work in zip(orders, busy, strict=True))
        return (last, idle) if self.by == "makespan" else (idle, last)

    @cached_property
    def _busy(self) -> list[int]:
        return [sum(self._ticks[low:high]) for low, high in pairwise(self.graph.first)]

    @cached_property
    def _mirror(self) -> Net:
        return self.net.mirrored()

    @cached_property
    def _late(self) -> list[int]:
        """How much later than the last rank each began: it may end as much earlier, for the sake of its span."""
        begun = [self.times[0][order[0]] for order in self.orders]
        return [max(begun) - each for each in begun]

    def squeezed(self, orders: Orders, ahead: tuple[int, bool], back: tuple[int, bool]) -> tuple[Value, Orders]:
        """The orders pressed against the end, then against the begin, each with a look and its politeness."""
        begins = self._late if self.by == "span" else None
        reverse, _ = squeeze(self._mirror, [order[::-1] for order in orders], *back, begins)
        orders, ends = squeeze(self.net, [order[::-1] for order in reverse], *ahead)
        starts = {order[0]: ends[order[0]] - self.net.ticks[order[0]] for order in orders}
        return self._value(orders, starts, ends), orders

    def ordered(self, orders: Orders) -> Line:
        """The line whose schedule has these orders."""
        ops = [op for row in self.graph.schedule.ranks for op in row]
        rows = tuple(tuple(ops[index] for index in order) for order in orders)
        return replace(self, schedule=replace(self.schedule, ranks=rows))


def apart(schedule: Schedule) -> Schedule:
    """The schedule with each backward in one piece as input gradient and weight gradient behind it: never slower."""
    if not any(op.kind is Kind.B for row in schedule.ranks for op in row):
        return schedule
    rows: list[list[Op]] = [[] for _ in schedule.ranks]
    for row, ops in zip(rows, schedule.ranks, strict=True):
        for op in ops:
            row += (I(op.stage, op.microbatch or 0), W(op.stage, op.microbatch or 0)) if op.kind is Kind.B else (op,)
    return replace(schedule, ranks=tuple(map(tuple, rows)))


def squeeze(
    net: Net, orders: Orders, look: int, polite: bool, begins: Sequence[int] | None = None
) -> tuple[Orders, list[int]]:  # fmt: skip
    """The orders and ends of ranks that look ahead past what they would have to wait for, from where each `begins`.

    A rank takes the first of its next `look` operations that can start, unless one that it passes would then find less
    room than there is, or (`polite`) is known to arrive before that one ends. As the order of the rest stays, the
    result always runs if `orders` do.
    """
    rank_of, ticks, change, prior, need, lag = net.rank, net.ticks, net.change, net.prior, net.need, net.lag
    user, away, room = net.user, net.away, net.room
    left = [order[::-1] for order in orders]
    done: Orders = [[] for _ in orders]
    ends = [-1] * len(ticks)
    held, free = [0] * len(orders), list(begins or [0] * len(orders))
    wakes = sorted((begin, rank) for rank, begin in enumerate(free))
    while wakes:
        now, rank = heappop(wakes)
        row = left[rank]
        if now < free[rank] or not row:
            continue
        level = highest = held[rank]
        limit, soonest = room[rank], -1
        for place in range(len(row) - 1, max(-1, len(row) - 1 - look), -1):
            index = row[place]
            takes = change[index]
            before, far = prior[index], need[index]
            if before < 0 or ends[before] >= 0:
                there = 0 if far < 0 else ends[far] + lag[index] if ends[far] >= 0 else -1
                if there > now:
                    if polite and (soonest < 0 or there < soonest):
                        soonest = there
                elif there >= 0 and (takes <= 0 or highest + takes <= limit):
                    end = now + ticks[index]
                    if soonest < 0 or end <= soonest:
                        break
            level += takes
            if level > highest:
                highest = level
        else:
            continue
        del row[place]
        done[rank].append(index)
        held[rank] += takes
        ends[index] = free[rank] = end
        heappush(wakes, (end, rank))
        if user[index] >= 0 and rank_of[user[index]] != rank:
            heappush(wakes, (end + away[index], rank_of[user[index]]))
    return done, ends
