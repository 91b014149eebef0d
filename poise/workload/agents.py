"""Agents of teams as they run: what they read, when they ask the model again, and what they commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poise.workload.director import WAKE, Sends
from poise.workload.s_bus import Bus, Locks, Way
from poise.workload.table import Workload


class Team(NamedTuple):
    """What each team does, as in `shared_state`. check: picoseconds from the check of the log to the write."""

    way: Way
    agents: int
    steps: int
    shards: int
    retries: int
    check: int


@dataclass(slots=True)
class Agent:
    """Where an agent is. own: the shard that it writes.  reads: the shards of its step, its own first."""

    number: int
    own: int
    step: int = 0
    attempt: int = 0
    reads: list[int] = field(default_factory=list)


class Agents:
    """The agents of all teams of one run; shards are numbered over all teams.

    others: what each step reads besides its own shard.  post: of each row, picoseconds from the answer to the commit.
    """

    def __init__(self, workload: Workload, team: Team, others: NDArray[np.int64], post: NDArray[np.int64]) -> None:
        self._team, self._others, self._post = team, others, post
        self._arrival, self._output = workload.arrival, workload.output
        numbers = range(len(others) // team.steps)
        self._agents = [
            Agent(each, each // team.agents * team.shards + each % team.agents % team.shards) for each in numbers
        ]
        shards = len(numbers) // team.agents * team.shards
        self.bus = Bus(team.way, shards)
        self._locks = Locks(shards) if team.way == "locks" else None
        self._pending: list[tuple[int, int, bool]] = []
        self._spare: list[int] = []
        self._counts = dict.fromkeys(("commits", "refused", "stale", "lost", "given_up", "refused_tokens"), 0)

    def begin(self) -> Sends:
        """The first step of every agent."""
        return [send for agent in self._agents for send in self._start(agent, int(self._arrival[self._row(agent)]))]

    def ended(self, row: int, now: int, finished: bool) -> Sends:
        """The model has answered: the agent posts its commit."""
        agent = self._agents[row // (self._team.steps * (self._team.retries + 1))]
        if not finished:
            return self._release(agent, now)  # its other steps never begin
        return self._later(agent, now, int(self._post[row]), checked=False)

    def woken(self, now: int) -> Sends:
        """Commits have come, or were checked and have their locks."""
        sends: list[tuple[int, int]] = []
        while self._pending and self._pending[0][0] <= now:
            _, number, checked = heappop(self._pending)
            sends += self._write(self._agents[number], now) if checked else self._check(self._agents[number], now)
        return sends

    def spare(self) -> Iterable[int]:
        """Retries that were not needed."""
        return self._spare

    def counts(self) -> Mapping[str, float]:
        """Commits, those refused, and their share; accepted ones on stale reads or over a lost update."""
        tried = self._counts["commits"] + self._counts["refused"]
        return {**self._counts, "refused_share": self._counts["refused"] / tried if tried else 0.0}

    def _row(self, agent: Agent) -> int:
        return (agent.number * self._team.steps + agent.step) * (self._team.retries + 1) + agent.attempt

    def _start(self, agent: Agent, now: int) -> list[tuple[int, int]]:
        first, shards = agent.own - agent.own % self._team.shards, self._team.shards
        chosen = self._others[agent.number * self._team.steps + agent.step].tolist()
        agent.reads = [agent.own, *(first + (agent.own - first + 1 + each) % shards for each in chosen)]
        if self._locks is not None:
            return self._begun(self._locks.ask(agent.number, agent.reads), now)
        return self._ask(agent, now)

    def _begun(self, numbers: Iterable[int], now: int) -> list[tuple[int, int]]:
        return [send for number in numbers for send in self._ask(self._agents[number], now)]

    def _ask(self, agent: Agent, now: int) -> list[tuple[int, int]]:
        self.bus.get(agent.number, agent.reads)
        return [(self._row(agent), now)]

    def _later(self, agent: Agent, now: int, wait: int, *, checked: bool) -> list[tuple[int, int]]:
        if not wait:
            return self._write(agent, now) if checked else self._check(agent, now)
        heappush(self._pending, (now + wait, agent.number, checked))
        return [(WAKE, now + wait)]

    def _check(self, agent: Agent, now: int) -> list[tuple[int, int]]:
        if stale := self.bus.checked(agent.number, agent.own):
            agent.reads += stale  # read again, as it now knows of them
            return self._refuse(agent, now)
        return self._later(agent, now, self._team.check, checked=True)

    def _write(self, agent: Agent, now: int) -> list[tuple[int, int]]:
        lost = self.bus.changed(agent.number, agent.own)
        if not self.bus.write(agent.number, agent.own):
            return self._refuse(agent, now)
        self._counts["commits"] += 1
        self._counts["lost"] += lost
        self._counts["stale"] += not {*agent.reads}.isdisjoint(self.bus.stale(agent.number, agent.own))
        return self._go_on(agent, now)

    def _refuse(self, agent: Agent, now: int) -> list[tuple[int, int]]:
        self._counts["refused"] += 1
        self._counts["refused_tokens"] += int(self._output[self._row(agent)])
        if agent.attempt == self._team.retries:
            self._counts["given_up"] += 1
            return self._go_on(agent, now)
        agent.attempt += 1
        return self._ask(agent, now)

    def _go_on(self, agent: Agent, now: int) -> list[tuple[int, int]]:
        """The step is over: the next one begins."""
        row = self._row(agent)
        self._spare += range(row + 1, row + 1 + self._team.retries - agent.attempt)
        sends = self._release(agent, now)
        agent.step, agent.attempt = agent.step + 1, 0
        return sends + (self._start(agent, now) if agent.step < self._team.steps else [])

    def _release(self, agent: Agent, now: int) -> list[tuple[int, int]]:
        return [] if self._locks is None else self._begun(self._locks.give_back(agent.number), now)
