"""A simulated Program of a step as a `Step`: operations, transfers, and how long ranks waited."""

from __future__ import annotations

from typing import Literal

from poise.core.errors import ProgramError
from poise.pipeline.graph import Graph
from poise.program import Task
from poise.program.index import Index
from poise.program.passes.gather import LANE as GATHER
from poise.program.passes.gradients import LANE as SYNC
from poise.sim.links import Wiring
from poise.sim.program import Simulated
from poise.sim.step.result import Step, Transfer

_OPERATIONS = frozenset({"F", "F_NO_GRAD", "I", "B", "W", "R", "S", "T", "free", "wait"})


def read(found: Simulated, graph: Graph, wiring: Wiring) -> Step:
    """The step of `graph`, which was lowered, extended and simulated on `wiring`."""
    return _Reading(found, graph, wiring).step()


class _Reading:
    def __init__(self, found: Simulated, graph: Graph, wiring: Wiring) -> None:
        self.found, self.graph, self.index, self.wiring = found, graph, found.index, wiring
        self.ranks = len(graph.first) - 1
        self.compute = {
            lane.rank: range(*self.index.first[place : place + 2])
            for place, lane in enumerate(self.index.lanes)
            if lane.name == "compute"
        }
        self.ops = [
            number
            for rank in range(self.ranks)
            for number in self.compute.get(rank, ())
            if _is_operation(self.index.tasks[number])
        ]
        if len(self.ops) != graph.first[-1]:
            raise ProgramError(f"step: {len(self.ops)} operations on the lanes `compute` for {graph.first[-1]}")
        self.op_of = {number: op for op, number in enumerate(self.ops)}

    def step(self) -> Step:
        starts, ends = ([each[number] for number in self.ops] for each in (self.found.starts, self.found.ends))
        optimizer = [self._optimizer(rank) for rank in range(self.ranks)]
        finish = [end for _, end in optimizer]
        for number, task in enumerate(self.index.tasks):
            if task.lane == SYNC:
                finish[task.rank] = max(finish[task.rank], self.found.ready[number])
        waited = [self._waited(rank) + finish[rank] - optimizer[rank][1] for rank in range(self.ranks)]
        return Step(self.graph, starts, ends, self._transfers(), optimizer, finish, waited)

    def _optimizer(self, rank: int) -> tuple[int, int]:
        """Start of the first update of a rank, and end of its last."""
        own = self.compute.get(rank, range(0))
        end = max((self.found.ends[number] for number in own), default=0)
        updates = (number for number in own if self.index.tasks[number].kind == "update")
        first = next(updates, -1) if self.graph.schedule.updates == "flush" else -1
        return (end if first < 0 else self.found.starts[first]), end

    def _waited(self, rank: int) -> int:
        """Picoseconds from when tasks could have started, had transfers taken no time, until they did."""
        index, found = self.index, self.found
        total = free = 0
        for number in self.compute.get(rank, ()):
            could = free
            for need in index.needs[number]:
                if (there := made(index, found, need)) > could:
                    could = there
            total += found.starts[number] - could
            free = found.ends[number]
        return total

    def _transfers(self) -> list[Transfer]:
        """In the order in which they leave their links. Messages without bytes and latency are none."""
        tasks, ends = self.index.tasks, self.found.ends
        received = {send: number for number, send in enumerate(self.index.source) if send >= 0}
        late = {pair for pair in {tasks[send].group for send in received} if self.wiring.latency(*pair)}
        sent = {send for send in received if tasks[send].work or tasks[send].group in late}
        own = [number for number, task in enumerate(tasks) if number in sent or task.lane in (SYNC, GATHER)]
        own.sort(key=ends.__getitem__)
        return [self._transfer(number, tasks[number], received) for number in own]

    def _transfer(self, number: int, task: Task, received: dict[int, int]) -> Transfer:
        index, found = self.index, self.found
        requested = max((found.ready[need] for need in index.needs[number]), default=0)
        begin, rank = found.starts[number], task.rank
        if task.kind == "send":
            what = str(self.graph.at(self.op_of[index.writer[task.reads[0]]])[2])
            return Transfer("message", what, rank, task.group[1], requested, begin, found.starts[received[number]])
        if task.arg == "weights":
            return Transfer("update", "weights", rank, rank, requested, begin, found.ready[number])
        kind: Literal["sync", "gather"] = "sync" if task.lane == SYNC else "gather"
        return Transfer(kind, f"stage {task.arg}", rank, rank, requested, begin, found.ready[number])


def made(index: Index, found: Simulated, number: int) -> int:
    """When the result of a task would be there, did transfers take no time."""
    task = index.tasks[number]
    if task.kind == "recv":
        sent = index.source[number]
        return max((found.ready[need] for need in index.needs[sent]), default=0)
    if task.lane == GATHER or (task.lane == SYNC and not index.needs[number]):
        return 0
    if task.lane == SYNC:
        return max(found.ready[need] for need in index.needs[number])
    return found.ready[number]


def _is_operation(task: Task) -> bool:
    return task.kind in _OPERATIONS and isinstance(task.arg, tuple)
