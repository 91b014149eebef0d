"""Statistics of programs that call tools in one engine: tool durations, the cost of returning, and turns to come.

Formulas: Continuum (arXiv 2511.02230): past durations by tool, the mean delay of queueing again, and
η = −Corr(k, N − k) over the turns k of completed programs of N turns.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterator
from math import sqrt
from typing import Any

LEFT = 10_000
"""The most sessions tracked as away; the oldest are dropped first: they went elsewhere, or gave up."""


class Durations:
    """The last `most` durations, sorted."""

    __slots__ = ("_all", "_order", "most")

    def __init__(self, most: int = 1000) -> None:
        self.most = most
        self._order: deque[int] = deque()
        self._all: list[int] = []

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[int]:
        return iter(self._all)

    def add(self, duration: int) -> None:
        """Take note of one, forgetting the oldest beyond `most`."""
        self._order.append(duration)
        insort(self._all, duration)
        if len(self._order) > self.most:
            del self._all[bisect_right(self._all, self._order.popleft()) - 1]


class Tools:
    """How long sessions were away, by the tool that they called and for all tools; durations in picoseconds."""

    __slots__ = ("_left", "all", "by_tool")

    def __init__(self) -> None:
        self.all = Durations()
        self.by_tool: dict[int, Durations] = {}
        self._left: dict[int, tuple[int, int]] = {}

    def leave(self, session: int, tool: int, now: int) -> None:
        """A session calls a tool."""
        self._left.pop(session, None)
        self._left[session] = tool, now
        if len(self._left) > LEFT:
            del self._left[next(iter(self._left))]

    def come_back(self, session: int, now: int) -> None:
        """It is back, if it left from here."""
        left = self._left.pop(session, None)
        if left is not None:
            tool, at = left
            self.all.add(now - at)
            self.by_tool.setdefault(tool, Durations()).add(now - at)

    def of(self, tool: int, least: int) -> Durations:
        """The durations of a tool, or of all where it has fewer than `least`."""
        found = self.by_tool.get(tool)
        return self.all if found is None or len(found) < least else found


class Turns:
    """η of the programs that were completed: 1 where all have equally many turns, 0 where turns predict nothing.

    Every turn k of a program of N turns counts as one pair (k, N − k).
    """

    __slots__ = ("_pairs", "_rest", "_squares", "_turns", "_turns_squares", "_with")

    def __init__(self) -> None:
        self._pairs = self._turns = self._rest = self._with = self._turns_squares = self._squares = 0

    def complete(self, turns: int) -> None:
        """A program ended after `turns` turns; sums over k = 1 … N in closed form."""
        total = turns * (turns + 1) // 2
        squares = total * (2 * turns + 1) // 3
        self._pairs += turns
        self._turns += total
        self._rest += turns * turns - total
        self._turns_squares += squares
        self._squares += turns**3 - 2 * turns * total + squares
        self._with += turns * total - squares

    @property
    def eta(self) -> float:
        """−Corr(k, N − k), in [0, 1]; 1 where nothing varies."""
        pairs = self._pairs
        own = pairs * self._turns_squares - self._turns**2
        rest = pairs * self._squares - self._rest**2
        if own <= 0 or rest <= 0:
            return 1.0
        both = pairs * self._with - self._turns * self._rest
        return min(max(-both / sqrt(own) / sqrt(rest), 0.0), 1.0)


class Mean:
    """A running mean."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = self.total = 0

    def add(self, value: int) -> None:
        """Take note of one."""
        self.count += 1
        self.total += value

    @property
    def value(self) -> float:
        """The mean, 0 of none."""
        return self.total / self.count if self.count else 0.0


class Programs:
    """All statistics of one engine, fed by the hooks of a cache policy."""

    __slots__ = ("requeue", "tools", "turns")

    def __init__(self) -> None:
        self.tools = Tools()
        self.turns = Turns()
        self.requeue = Mean()

    def returned(self, request: Any, now: int) -> None:
        """A request arrives."""
        if request.session >= 0:
            self.tools.come_back(request.session, now)

    def admitted(self, sequence: Any, now: int) -> None:
        """Record the queueing time of a session without pinned KV when it begins to run."""
        request = sequence.request
        if request.turn and not sequence.pinned and not sequence.preemptions:
            self.requeue.add(now - request.arrived_at)

    def benefit(self, reload: int) -> float:
        """Picoseconds that a session saves where its KV is still there: T̄·η + reload."""
        return self.requeue.value * self.turns.eta + reload
