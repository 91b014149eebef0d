"""Matrix: programs of agents run by one central loop, in batches, or row by row from peer to peer.

The state of a conversation travels in the message from agent to agent (arXiv 2511.21686), so no loop holds all of them,
and a row that ends admits the next at once. A row is a program of a workload, and its calls are served by whatever
serves that workload, so they take as long as the engines take at that load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from poise.core.errors import ScenarioError, UserError
from poise.core.units import SECOND, ps
from poise.workload.directed import Graph, noted
from poise.workload.director import Sends, Undirected
from poise.workload.draw import count, positive, stream
from poise.workload.lengths import Spec, length, tokens
from poise.workload.table import Workload

Way = Literal["central", "batch", "rows"]
WAYS: tuple[Way, ...] = ("central", "batch", "rows")


def conversations(rows: int, *, turns: Spec = 6, call_s: Spec = 2.0, seed: int = 0) -> list[list[float]]:
    """Return the seconds of the calls of `rows` conversations; numbers or distributions."""
    number = tokens(length(turns, "turns"), stream(seed, "turns"), rows, "turns")
    drawn = length(call_s, "call_s").draw(stream(seed, "call_s"), int(number.sum())).tolist()
    ends = np.cumsum(number).tolist()
    return [drawn[end - size : end] for end, size in zip(ends, number.tolist(), strict=True)]


def orchestrated(programs: Workload, way: Way = "rows", *, in_flight: int = 100, step_s: float = 0.005) -> Workload:
    """Return the programs, of which `in_flight` are under way at once, by a way of orchestration.

    central: one loop hears every answer and sends what follows, `step_s` each, one after another.  batch: the next
    `in_flight` programs begin when all those before them have ended.  rows: the next program begins when one has
    ended.  In the last two a step takes `step_s` of the agent's own. A program begins at its arrival at the earliest,
    in order of arrivals. Counted are answers and their tokens until the last program begins, and the seconds until
    then, so without the drain of a run; all, where all begin at once. ScenarioError where there are no programs.
    """
    if way not in WAYS:
        raise UserError(f"way is {way!r}; give one of {', '.join(WAYS)}")
    count("in_flight", in_flight)
    step = ps(positive("step_s", step_s, zero=True))
    if programs.endless is not None or programs.concurrency or programs.lanes is not None or programs.directed:
        raise ScenarioError(
            "orchestration needs programs that are there beforehand; give the load a number of requests"
        )
    if programs.session is None and programs.after_offsets is None:
        raise ScenarioError("orchestration is of programs, and the workload has none; give it workflows or sessions")
    made = replace(programs, directed=lambda: Orchestrator(programs, way, in_flight, step))
    return noted(made, "orchestrated", way=way, in_flight=in_flight, step_s=step_s)


class Orchestrator(Undirected):
    """Programs under way. step: picoseconds of orchestration for each answer."""

    def __init__(self, programs: Workload, way: Way, in_flight: int, step: int) -> None:
        self._graph = Graph(programs)
        self._way = way
        self._most = in_flight
        self._step = step
        self._left = [len(rows) for rows in self._graph.programs]
        self._next = 0
        self._under_way = 0
        self._loop_until = 0
        self._output = programs.output
        self._heard = [0, 0, 0]  # answers, tokens, picoseconds
        self._steady: list[int] = []

    def begin(self) -> Sends:
        """The first programs."""
        return self._admit(0)

    def ended(self, row: int, now: int, finished: bool) -> Sends:
        """What waited for this answer alone; the next programs, where it was the last or was not served."""
        begun = now
        if self._way == "central":
            begun = max(now, self._loop_until)
            self._loop_until = begun + self._step
        at, program = begun + self._step, self._graph.of[row]
        self._heard = [self._heard[0] + 1, self._heard[1] + int(self._output[row]), at]
        sends = self._graph.met(row, at) if finished else []
        if self._left[program]:
            self._left[program] = self._left[program] - 1 if finished else 0
            if not self._left[program]:
                self._under_way -= 1
                sends += self._admit(at)
        return sends

    def counts(self) -> Mapping[str, float]:
        """Answers, tokens and seconds until the last program began."""
        answers, made, until = self._steady or self._heard
        return {"answers": answers, "tokens": made, "seconds": until / SECOND}

    def _admit(self, now: int) -> list[tuple[int, int]]:
        """The programs that there is room for, each at its arrival at the earliest."""
        sends: list[tuple[int, int]] = []
        if self._way == "batch" and self._under_way:
            return sends
        while self._next < len(self._left) and self._under_way < self._most:
            for row in self._graph.first(self._next):
                sends.append((row, max(now, self._graph.arrival[row])))
            self._next += 1
            self._under_way += 1
        if sends and self._next == len(self._left) and self._heard[0]:
            self._steady = [*self._heard]
        return sends
