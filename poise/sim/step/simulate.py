"""The loop of a training step: ranks compute in their schedule's order, transfers share links, then weights change."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import Literal, NamedTuple

from poise.core.errors import ScheduleError
from poise.core.units import ps
from poise.pipeline.costs import Costs
from poise.pipeline.graph import graph_of
from poise.pipeline.schedule import Schedule
from poise.sim.links import Flows, Path, Wiring
from poise.sim.step.result import Step, Transfer
from poise.sim.step.step_graph import StepGraph
from poise.sim.step.traffic import Traffic


def simulate_step(schedule: Schedule, costs: Costs, traffic: Traffic, wiring: Wiring) -> Step:
    """Run `schedule` once, with `costs` in seconds; ScheduleError where it cannot finish or numbers do not fit.

    A rank computes one operation at a time, in order. Its messages to one other rank follow each other; so do its
    gradient reductions, its gathers, and its copies to and from the host. All transfers between ranks share links
    max-min fairly and none takes compute time. Without bytes and latencies this is `pipeline.time`;
    the `comm` of the costs is not used.
    """
    if len(wiring.node) != len(schedule.ranks):
        raise ScheduleError(f"wiring: {len(wiring.node)} ranks for a schedule of {len(schedule.ranks)}; give as many")
    return _Loop(StepGraph(graph_of(schedule), costs, traffic), wiring).run()


class _Ask(NamedTuple):
    """A transfer that waits for those before it on its channel."""

    kind: Literal["message", "sync", "gather", "update"]
    what: str
    rank: int
    peer: int
    bytes: float
    requested_at: int
    then: int
    """The operation that waits for it, or −1."""


Channel = tuple[str, int, int]


class _Loop:
    def __init__(self, graph: StepGraph, wiring: Wiring) -> None:
        self.graph, self.wiring, self.ranks = graph, wiring, graph.ranks
        self.flows = Flows(wiring.bytes_per_s)
        first = graph.rows.first
        count, rows, ranks = first[-1], len(first) - 1, graph.ranks
        self.starts, self.ends, self.produced = [0] * count, [0] * count, [0] * count
        self.there = [need < 0 for need in graph.rows.needs]
        self.gathered: set[int] = set()
        self.at, self.free, self.running = list(first[:-1]), [0] * rows, [False] * rows
        self.waited, self.pending = [0] * ranks, [0] * ranks
        self.optimizer, self.finish = [(0, 0)] * ranks, [-1] * ranks
        self.queues: dict[Channel, deque[_Ask]] = {}
        self.going: dict[int, tuple[Channel, _Ask, int]] = {}
        self.arriving: dict[int, _Ask] = {}
        self.due: dict[int, int] = {}
        self.number = 0
        self.transfers: list[Transfer] = []
        self.events: list[tuple[int, int, int]] = []
        """(instant, 0 for a transfer off its links, 1 for one that arrives, 2 for a row that is free, number)."""

    def run(self) -> Step:
        """All events in order of time; transfers before ranks at one instant."""
        for rank in range(self.ranks):
            self._gather(0, rank, 0)
        for row in range(len(self.at)):
            self._go(0, row)
        while self.events:
            now, what, number = heappop(self.events)
            if what == 0:
                if self.due.get(number) == now:
                    self._off(now, number)
            elif what == 1:
                self._arrive(now, number)
            else:
                self._free(now, number)
        for row, at in enumerate(self.at):
            if at < self.graph.rows.first[row + 1]:
                raise ScheduleError(f"{self.graph.rows.name(at)} can never start; `check` tells the cycle")
        ops = [at for at in range(self.graph.rows.first[self.ranks]) if self.graph.real[at]]
        starts, ends = [self.starts[at] for at in ops], [self.ends[at] for at in ops]
        return Step(self.graph.rows.graph, starts, ends, self.transfers, self.optimizer, self.finish, self.waited)

    def _go(self, now: int, row: int) -> None:
        """Start what comes next in a row if it can; behind the last operation of a rank, its optimizer."""
        at = self.at[row]
        if self.running[row]:
            return
        if at == self.graph.rows.first[row + 1]:
            if row < self.ranks and not self.pending[row]:
                self._update(now, row)
            return
        if not self.there[at] or (at in self.graph.starting and at not in self.gathered):
            return
        self.running[row] = True
        self.starts[at] = now
        if row < self.ranks:
            self.waited[row] += now - max(self.free[row], self.produced[at])
            if (run := self.graph.starting.get(at)) is not None:
                self._gather(now, row, run + 1)
        heappush(self.events, (now + self.graph.ticks[at], 2, row))

    def _free(self, now: int, row: int) -> None:
        """An operation has ended, or the optimizer has."""
        at = self.at[row]
        if at == self.graph.rows.first[row + 1]:
            self._updated(now, row)
            return
        self.ends[at] = self.free[row] = now
        self.at[row] += 1
        self.running[row] = False
        for user in self.graph.users.get(at, ()):
            self._hand(now, at, user)
        if size := self.graph.reduces.get(at):
            self.pending[row] += 1
            self._ask(("sync", row, row), _Ask("sync", self.graph.about(at), row, row, size, now, -1))
        self._go(now, row)

    def _hand(self, now: int, at: int, user: int) -> None:
        """The result of an operation goes where it is used: to another rank by message, else it is there."""
        here, there = self.graph.row[at], self.graph.row[user]
        self.produced[user] = now
        size = self.graph.message(at, user)
        if here == there or max(here, there) >= self.ranks or not (size or self.wiring.latency(here, there)):
            self.there[user] = True
            if here != there:
                self._go(now, there)
            return
        self._ask(("message", here, there), _Ask("message", self.graph.name(at), here, there, size, now, user))

    def _gather(self, now: int, rank: int, run: int) -> None:
        """Request the weights that a run of operations needs, if they have to be gathered."""
        runs = self.graph.runs[rank]
        if run < len(runs):
            at, size = runs[run]
            self._ask(("gather", rank, rank), _Ask("gather", self.graph.about(at), rank, rank, size, now, at))

    def _ask(self, channel: Channel, ask: _Ask) -> None:
        queue = self.queues.setdefault(channel, deque())
        queue.append(ask)
        if len(queue) == 1:
            self._on(ask.requested_at, channel)

    def _on(self, now: int, channel: Channel) -> None:
        """Put the first transfer of a channel on its links."""
        ask = self.queues[channel][0]
        number = self.number
        self.number += 1
        self.going[number] = (channel, ask, now)
        path = self._path(ask)
        if ask.bytes and path:
            end = self.flows.start(now, number, ask.bytes, path)
            self._reckon([(number, end)] if end >= 0 else self.flows.settle(now))
        else:
            self.due[number] = now
            heappush(self.events, (now, 0, number))

    def _path(self, ask: _Ask) -> Path:
        if ask.kind == "message":
            return self.wiring.path(ask.rank, ask.peer)
        return self.wiring.outside(ask.rank)

    def _reckon(self, ends: list[tuple[int, int]]) -> None:
        for flow, end in ends:
            if self.due.get(flow) != end:
                self.due[flow] = end
                heappush(self.events, (end, 0, flow))

    def _off(self, now: int, number: int) -> None:
        """A transfer has left its links: the next of its channel may use them while it is on its way."""
        channel, ask, begin = self.going.pop(number)
        del self.due[number]
        if number in self.flows.paths:
            self.flows.end(number)
            self._reckon(self.flows.settle(now))
        queue = self.queues[channel]
        queue.popleft()
        late = ps(self.wiring.latency(ask.rank, ask.peer)) if ask.kind == "message" else self.graph.latency
        self.transfers.append(Transfer(ask.kind, ask.what, ask.rank, ask.peer, ask.requested_at, begin, now + late))
        self.arriving[number] = ask
        heappush(self.events, (now + late, 1, number))
        if queue:
            self._on(now, channel)

    def _arrive(self, now: int, number: int) -> None:
        ask = self.arriving.pop(number)
        if ask.kind == "message":
            self.there[ask.then] = True
        elif ask.kind == "gather":
            self.gathered.add(ask.then)
        elif ask.kind == "sync":
            self.pending[ask.rank] -= 1
        else:
            self._done(now, ask.rank)
            return
        self._go(now, ask.peer)

    def _update(self, now: int, rank: int) -> None:
        """All gradients are there: start the optimizer."""
        self.waited[rank] += now - self.free[rank]
        self.optimizer[rank] = (now, now + self.graph.optimizer[rank])
        self.running[rank] = True
        heappush(self.events, (now + self.graph.optimizer[rank], 2, rank))

    def _updated(self, now: int, rank: int) -> None:
        if not self.graph.update[rank]:
            self._done(now, rank)
            return
        self._ask(("sync", rank, rank), _Ask("update", "weights", rank, rank, self.graph.update[rank], now, -1))

    def _done(self, now: int, rank: int) -> None:
        self.waited[rank] += now - self.optimizer[rank][1]
        self.finish[rank] = now
