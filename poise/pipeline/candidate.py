"""A schedule on a net: what it is worth, and what pressing it makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from poise.pipeline.constraint_graph import ConstraintGraph, Rows
from poise.pipeline.schedule import Schedule
from poise.pipeline.squeeze import Orders, squeeze

Value = tuple[int, int]
"""Makespan and largest bubble in a span, in ticks, the more important one first."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """The rows of a schedule with the net on which they are to be improved, by "makespan" or by "span"."""

    net: ConstraintGraph
    rows: Rows
    by: str

    @property
    def name(self) -> str:
        """Where it comes from."""
        return self.rows.name

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule itself."""
        return self.net.schedule(self.rows)

    @cached_property
    def orders(self) -> Orders:
        """The rows as lists."""
        return [row.tolist() for row in self.rows.ranks]

    @cached_property
    def fits(self) -> bool:
        """Whether no rank ever holds more than its room."""
        return self.net.fits(self.rows)

    @cached_property
    def times(self) -> tuple[list[int], list[int]]:
        """Starts and ends of the operations, by number; −1 ends those of a schedule that cannot run."""
        return run(self.net, self.orders)

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
        ticks = self.net.ticks
        return [sum(map(ticks.__getitem__, order)) for order in self.orders]

    @cached_property
    def _late(self) -> list[int]:
        """How much later than the last rank each began: it may end as much earlier, for the sake of its span."""
        begun = [self.times[0][order[0]] for order in self.orders]
        return [max(begun) - each for each in begun]

    def squeezed(self, orders: Orders, ahead: tuple[int, bool], back: tuple[int, bool]) -> tuple[Value, Orders]:
        """The orders pressed against the end, then against the begin, each with a look and its politeness."""
        begins = self._late if self.by == "span" else None
        reverse, _ = squeeze(self.net.back, [order[::-1] for order in orders], *back, begins)
        orders, ends = squeeze(self.net.ahead, [order[::-1] for order in reverse], *ahead)
        starts = {order[0]: ends[order[0]] - self.net.ticks[order[0]] for order in orders}
        return self._value(orders, starts, ends), orders

    def ordered(self, orders: Orders) -> Candidate:
        """The line whose schedule has these orders."""
        return replace(self, rows=Rows(self.name, tuple(np.array(order) for order in orders)))


def true(line: Candidate) -> tuple[Fraction, Fraction]:
    """Its value in the unit of the costs; placements differ in their ticks."""
    return Fraction(line.value[0], line.net.durations.scale), Fraction(line.value[1], line.net.durations.scale)


def run(net: ConstraintGraph, orders: Orders) -> tuple[list[int], list[int]]:
    """Starts and ends where every rank runs its operations in order, each as soon as what it needs is there."""
    need, ticks, lag = net.need, net.ticks, net.lag
    count, ranks = len(ticks), len(orders)
    starts, ends, waiter = [0] * count, [-1] * count, [-1] * count
    at, free = [0] * ranks, [0] * ranks
    ready = list(range(ranks))
    while ready:
        rank = ready.pop()
        order, begin, now = orders[rank], at[rank], free[rank]
        for place in range(begin, len(order)):
            index = order[place]
            far = need[index]
            if far >= 0:
                there = ends[far]
                if there < 0:
                    waiter[far] = rank
                    at[rank] = place
                    break
                there += lag[index]
                if there > now:
                    now = there
            starts[index] = now
            now += ticks[index]
            ends[index] = now
            if waiter[index] >= 0:
                ready.append(waiter[index])
        else:
            at[rank] = len(order)
        free[rank] = now
    return starts, ends
