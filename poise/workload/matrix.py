"""Matrix: conversations of agents run by one central loop, in batches, or row by row from peer to peer.

The state of a conversation travels in the message from agent to agent (arXiv 2511.21686), so no loop holds all of them,
and a row that ends admits the next at once. Here each row is a list of calls with their seconds, on agents of which
each serves some calls at once.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

import numpy as np

from poise.core.errors import UserError
from poise.workload.draw import count, positive, stream
from poise.workload.lengths import Spec, length, tokens

Way = Literal["central", "batch", "rows"]
WAYS: tuple[Way, ...] = ("central", "batch", "rows")

Rows = Sequence[Sequence[float]]
"""The seconds of each call of each row."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The agents that do the work.

    rows: conversations in flight at most.  agents: replicas of agents.  calls: that one serves at once.
    step_s: of orchestration before each call: the central loop's, one call after another, else the agent's own.
    lost: an agent that is lost, and when (seconds); None for none. Calls after that go to the others.
    """

    rows: int = 100
    agents: int = 16
    calls: int = 64
    step_s: float = 0.005
    lost: tuple[int, float] | None = None

    def __post_init__(self) -> None:
        for name in ("rows", "agents", "calls"):
            count(name, getattr(self, name))
        positive("step_s", self.step_s, zero=True)
        if self.lost is not None and (not 0 <= self.lost[0] < self.agents or self.agents < 2):
            raise UserError(f"lost is agent {self.lost[0]} of {self.agents}; there must be that one and another")


@dataclass(slots=True)
class Done:
    """The results of the rows. seconds: until the last ended.  lost: rows lost with an agent."""

    seconds: float = 0.0
    calls: int = 0
    lost: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Calls per second."""
        return self.calls / self.seconds if self.seconds else 0.0


def conversations(rows: int, *, turns: Spec = 6, call_s: Spec = 2.0, seed: int = 0) -> list[list[float]]:
    """Return the calls of `rows` conversations; numbers or distributions."""
    number = tokens(length(turns, "turns"), stream(seed, "turns"), rows, "turns")
    drawn = length(call_s, "call_s").draw(stream(seed, "call_s"), int(number.sum())).tolist()
    ends = np.cumsum(number).tolist()
    return [drawn[end - size : end] for end, size in zip(ends, number.tolist(), strict=True)]


def run(rows: Rows, way: Way, fleet: Fleet) -> Done:
    """Return when all rows have ended, by way of orchestration.

    central: every step of every row waits its turn at one loop.  batch: the next `fleet.rows` rows begin when all of
    those before them have ended; steps are the agents' own.  rows: the next row begins when one has ended.
    """
    if way not in WAYS:
        raise UserError(f"way is {way!r}; give one of {', '.join(WAYS)}")
    return _Run(rows, way, fleet).run()


def played(
    way: Way, rows: int, fleet: Mapping[str, Any] | None = None, rounds: int = 8, turns: Spec = 6, call_s: Spec = 2.0,
    seed: int = 0,
) -> Done:  # fmt: skip
    """Run `rounds` times as many drawn conversations as there are in flight, on a fleet with these fields."""
    drawn = conversations(rounds * rows, turns=turns, call_s=call_s, seed=seed)
    return run(drawn, way, Fleet(rows, **(fleet or {})))


class _Run:
    """Rows under way; simultaneous events happen in the order in which they were scheduled."""

    def __init__(self, rows: Rows, way: Way, fleet: Fleet) -> None:
        self._rows = rows
        self._way = way
        self._fleet = fleet
        self._queues: list[deque[int]] = [deque() for _ in range(fleet.agents)]
        self._busy = [0] * fleet.agents
        self._load: list[float] = [0.0] * fleet.agents
        self._at = [0] * len(rows)
        self._heap: list[tuple[float, int, int, int]] = []
        self._order = 0
        self._next = 0
        self._under_way = 0
        self._loop_until = 0.0
        self._done = Done()

    def run(self) -> Done:
        lost = self._fleet.lost
        self._admit(0.0)
        while self._heap:
            if lost is not None and self._heap[0][0] >= lost[1]:
                self._lose(*lost)
                lost = None
                continue
            now, _, row, agent = heapq.heappop(self._heap)
            if agent < 0:
                self._ask(now, row)
            else:
                self._answered(now, row, agent)
        return self._done

    def _admit(self, now: float) -> None:
        if self._way == "batch" and self._under_way:
            return
        while self._next < len(self._rows) and self._under_way < self._fleet.rows:
            self._under_way += 1
            self._step(now, self._next)
            self._next += 1

    def _step(self, now: float, row: int) -> None:
        """Orchestrate the row's next call, or end it."""
        if self._at[row] == len(self._rows[row]):
            self._end(now)
            return
        begin = now
        if self._way == "central":
            begin = max(now, self._loop_until)
            self._loop_until = begin + self._fleet.step_s
        self._push(begin + self._fleet.step_s, row, -1)

    def _end(self, now: float) -> None:
        self._done.seconds = max(now, self._done.seconds)
        self._under_way -= 1
        self._admit(now)

    def _ask(self, now: float, row: int) -> None:
        """Send a call to the agent with the fewest, the first of equals."""
        agent = self._load.index(min(self._load))
        self._load[agent] += 1
        self._queues[agent].append(row)
        self._serve(now, agent)

    def _serve(self, now: float, agent: int) -> None:
        while self._queues[agent] and self._busy[agent] < self._fleet.calls:
            row = self._queues[agent].popleft()
            self._busy[agent] += 1
            self._push(now + self._rows[row][self._at[row]], row, agent)

    def _answered(self, now: float, row: int, agent: int) -> None:
        self._busy[agent] -= 1
        self._load[agent] -= 1
        self._at[row] += 1
        self._done.calls += 1
        self._serve(now, agent)
        self._step(now, row)

    def _lose(self, agent: int, at: float) -> None:
        """Rows that are there are lost; no other row is."""
        gone = [*self._queues[agent], *(row for _, _, row, where in self._heap if where == agent)]
        self._queues[agent].clear()
        self._load[agent] = inf
        self._heap = [each for each in self._heap if each[3] != agent]
        heapq.heapify(self._heap)
        self._done.lost = sorted(gone)
        for _ in gone:
            self._end(at)

    def _push(self, at: float, row: int, agent: int) -> None:
        self._order += 1
        heapq.heappush(self._heap, (at, self._order, row, agent))
