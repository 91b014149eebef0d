"""The loop over a Program: lanes run ahead as far as instants are known; transfers start and end in order of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from poise.program.index import Index
from poise.sim.links.flows import Flows
from poise.sim.program.clock import Clock
from poise.sim.program.result import Rate, Simulated
from poise.sim.program.routes import Flow

OFF, ON = 0, 1
"""Events: a flow leaves its links, a task puts its flows on them. At one instant what leaves comes first."""


class Loop:
    """One run. A lane that stands waits for a result, for the members of its collective, or for its own transfer.

    When a task can start depends on instants that are known long before they come, so lanes run ahead of the events,
    and only what uses links is an event. Every event that a lane adds lies at or behind the one that let it go on, so
    events come in order of time. Flows have the number of their task; the further ones of an all-to-all have numbers
    behind those of the tasks.
    """

    def __init__(
        self, index: Index, clock: Clock, routes: Mapping[int, Sequence[Flow]], bytes_per_s: Sequence[float]
    ) -> None:
        count = len(index.tasks)
        self.index, self.ticks, self.routes = index, clock.ticks, routes
        self.lags = [lag if send >= 0 else 0 for lag, send in zip(clock.lags, index.source, strict=True)]
        """Of receives; late: of all others."""
        self.late = [0 if send >= 0 else lag for lag, send in zip(clock.lags, index.source, strict=True)]
        self.starts, self.ends, self.ready = [-1] * count, [-1] * count, [-1] * count
        self.at, self.free = list(index.first[:-1]), [0] * len(index.lanes)
        self.open = [len(members) for members in index.members]
        """Of each collective, how many members are missing; once it runs, how many flows have not ended."""
        self.met_at = [0] * len(index.members)
        self.uses = [any(each in routes for each in members) for members in index.members]
        self.waiting: dict[int, list[int]] = {}
        self.flows = Flows(bytes_per_s)
        self.events: list[tuple[int, int, int]] = []
        """(instant, OFF or ON, number of flow or task)."""
        self.due: dict[int, int] = {}
        self.task_of: list[int] = []
        """Of the further flows of tasks that have several."""
        self.rates: list[Rate] | None = None
        self.columns = (
            index.first, index.needs, index.source, index.meeting, clock.ticks, self.lags, self.late, routes,
            self.starts, self.ends, self.ready, self.waiting, self.at, self.free,
        )  # fmt: skip
        """Of tasks and lanes, for the inner loop."""

    def run(self) -> None:
        """All events in order of time."""
        events, due, flows, settle = self.events, self.due, self.flows, self.flows.settle
        self._advance(list(range(len(self.at))))
        while events:
            now, what, number = heappop(events)
            if what == ON:
                self._on(now, number)
            elif due.get(number) == now:
                del due[number]
                self._off(now, number)
            if flows.stale and (not events or events[0][0] > now):
                for flow, end in settle(now):
                    due[flow] = end
                    heappush(events, (end, OFF, flow))
                    self._note(now, flow)

    def _advance(self, ready: list[int]) -> None:
        """Run lanes as far as they come."""
        first, needs, source, meeting, ticks, lags, late, routes, starts, ends, there, waiting, at, free = self.columns
        while ready:
            lane = ready.pop()
            task, last, now = at[lane], first[lane + 1], free[lane]
            while task < last:
                blocked = -1
                for need in needs[task]:
                    instant = there[need]
                    if instant > now:
                        now = instant
                    elif instant < 0:
                        blocked = need
                        break
                else:
                    if (send := source[task]) >= 0:
                        instant = ends[send]
                        if instant < 0:
                            blocked = send
                        elif instant + lags[task] > now:
                            now = instant + lags[task]
                if blocked >= 0:
                    if blocked in waiting:
                        waiting[blocked].append(lane)
                    else:
                        waiting[blocked] = [lane]
                    break
                if (node := meeting[task]) >= 0:
                    at[lane], free[lane] = task, now
                    ready += self._met(now, task, node)
                    task, now = at[lane], free[lane]
                    break
                starts[task] = now
                now += ticks[task]
                if task in routes:
                    heappush(self.events, (now, ON, task))
                    break
                ends[task] = now
                there[task] = now + late[task]
                if task in waiting:
                    ready += waiting.pop(task)
                task += 1
            at[lane], free[lane] = task, now

    def _met(self, now: int, task: int, node: int) -> list[int]:
        """A member can start its collective. The last one starts all. Returns the lanes that may go on."""
        self.open[node] -= 1
        self.met_at[node] = now = max(now, self.met_at[node])
        if self.open[node]:
            return []
        members = self.index.members[node]
        for each in members:
            self.starts[each] = now
        if not self.uses[node]:
            return [lane for each in members for lane in self._done(now + self.ticks[each], each)]
        for each in members:
            if each in self.routes:
                self.open[node] += len(self.routes[each])
                heappush(self.events, (now + self.ticks[each], ON, each))
        return []

    def _on(self, now: int, task: int) -> None:
        """Put the flows of a task on their links."""
        number = task
        for at, (size, path) in enumerate(self.routes[task]):
            if at:
                number = len(self.index.tasks) + len(self.task_of)
                self.task_of.append(task)
            end = self.flows.start(now, number, size, path)
            if end >= 0:
                self.due[number] = end
                heappush(self.events, (end, OFF, number))
                self._note(now, number)

    def _off(self, now: int, flow: int) -> None:
        """A flow has brought all its bytes."""
        if self.rates is not None:
            self.rates.append(Rate(now, flow, self._task(flow), self.flows.paths[flow], 0.0))
        self.flows.end(flow)
        task = self._task(flow)
        node = self.index.meeting[task]
        if node < 0:
            self._advance(self._done(now, task))
            return
        self.open[node] -= 1
        if not self.open[node]:
            members = self.index.members[node]
            end = max(now, *(self.starts[each] + self.ticks[each] for each in members))
            self._advance([lane for each in members for lane in self._done(end, each)])

    def _done(self, now: int, task: int) -> list[int]:
        """A transfer or a member of a collective has ended. Returns the lanes that may go on."""
        lane = self.index.lane[task]
        self.ends[task] = self.free[lane] = now
        self.ready[task] = now + self.late[task]
        self.at[lane] = task + 1
        return [lane, *self.waiting.pop(task, ())]

    def _task(self, flow: int) -> int:
        count = len(self.index.tasks)
        return flow if flow < count else self.task_of[flow - count]

    def _note(self, now: int, flow: int) -> None:
        if self.rates is not None:
            self.rates.append(Rate(now, flow, self._task(flow), self.flows.paths[flow], self.flows.rate[flow]))


def run(
    index: Index, clock: Clock, routes: Mapping[int, Sequence[Flow]], bytes_per_s: Sequence[float], rates: bool
) -> Simulated:
    """Run all tasks as far as they can; `simulate` says how."""
    loop = Loop(index, clock, routes, bytes_per_s)
    loop.rates = [] if rates else None
    loop.run()
    return Simulated(index, loop.starts, loop.ends, loop.ready, loop.rates)
