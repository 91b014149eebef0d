"""Runs the lanes of one rank of a Program: computations one after the other, everything that moves data beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from time import perf_counter_ns
from typing import Any, NamedTuple, Protocol

from poise.program import Lane, Program, Task
from poise.runtime.program.handle import Handle, Later, Payload

Kernel = Callable[[Task, Sequence[Payload]], "Sequence[Payload] | Handle"]
"""From a task and what it reads to what it writes, now or later. NOT_YET: it cannot begin yet."""


class Watch(Protocol):
    """Is given where a rank is, as `Guard` is."""

    def at(self, doing: str) -> None:
        """It begins a task."""
        ...

    def wait(self, rank: int) -> None:
        """It waits for another rank."""
        ...

    def go(self) -> None:
        """It goes on."""
        ...


class Ran(NamedTuple):
    """A task that ran; instants in nanoseconds of this process's clock."""

    task: Task
    reached: int
    """When the task before it on its lane had ended."""
    start: int
    """When all that it reads was there as well."""
    end: int


NOT_YET = object()

AHEAD = 2
"""How many values of a lane may be on their way at a time."""


@dataclass
class _Row:
    lane: Lane
    tasks: Sequence[Task]
    at: int = 0
    going: Handle | None = None
    coming: list[Later] = field(default_factory=list)
    reached: int = 0
    start: int = 0

    @property
    def head(self) -> Task | None:
        return self.tasks[self.at] if self.at < len(self.tasks) else None


@dataclass
class Interpreter:
    """The lanes of `rank`. Values are freed behind their last reader, and at once where nothing reads them.

    A task begins when it is at the head of its lane and all it reads is there. A kernel that returns a `Handle` leaves
    its lane waiting while others go on; one that returns what is written has run. `keeps` are values that stay. `note`
    is called behind every task. Computations of further lanes (`compute 1`) go on beside those of `compute` where their
    kernels return a `Handle`.
    """

    program: Program
    rank: int
    kernels: Mapping[str, Kernel]
    changed: Event
    """Set by other threads whenever something has ended or arrived."""
    watch: Watch | None = None
    keeps: frozenset[str] = frozenset()
    note: Callable[[Ran], None] | None = None
    clock: Callable[[], int] = perf_counter_ns

    def __post_init__(self) -> None:
        self._tasks = [(lane, row) for lane, row in self.program.rows.items() if lane.rank == self.rank]
        self._writer = {name: lane for lane, row in self._tasks for task in row for name in task.writes}
        self._uses: dict[str, int] = {}
        for _, row in self._tasks:
            for task in row:
                for name in task.reads:
                    self._uses[name] = self._uses.get(name, 0) + 1

    def run(self, given: Mapping[str, Payload]) -> dict[str, Payload]:
        """Run all tasks once; returns what is left: given values, and those in `keeps`."""
        self.values = dict(given)
        self._left = dict(self._uses)
        self._given = self.keeps | given.keys()
        begin = self.clock()
        self._rows = {lane: _Row(lane, row, reached=begin) for lane, row in self._tasks}
        computing = [row for row in self._rows.values() if row.lane.name == "compute"]
        moving = [row for row in self._rows.values() if row.lane.name != "compute"]
        while True:
            self.changed.clear()
            moved = self._pump(moving)
            ready = [row for row in computing if row.head is not None and self._there(row.head)]
            if ready:
                self._begin(min(ready, key=lambda row: row.reached))
                continue
            waiting = next((row for row in (*computing, *moving) if row.head is not None or row.coming), None)
            if waiting is None:
                return self.values
            if not moved:
                self._waits(self._blocker(waiting))
                self.changed.wait()
                self._goes_on()

    def _there(self, task: Task) -> bool:
        """Whether all that a task reads has been made, and has arrived."""
        values = self.values
        for name in task.reads:
            if name not in values:
                return False
            value = values[name]
            if isinstance(value, Later) and not value.done():
                return False
        return True

    def _pump(self, rows: Sequence[_Row]) -> bool:
        """Let lanes that move data go as far as they can; whether anything went on."""
        moved = again = False
        while True:
            again = False
            for row in rows:
                if row.coming and any(each.done() for each in row.coming):
                    row.coming = [each for each in row.coming if not each.done()]
                    again = True
                while row.head is not None:
                    if row.going is not None:
                        if not row.going.done():
                            break
                        self._end(row, self._result(row.going, row.going.peer))
                    elif len(row.coming) >= AHEAD or not self._there(row.head) or not self._begin(row):
                        break
                    again = True
            if not again:
                return moved
            moved = True

    def _begin(self, row: _Row) -> bool:
        """Begin the task at the head of a lane; False where its kernel cannot yet."""
        task = row.tasks[row.at]
        if self.watch is not None and row.lane.name == "compute":
            self.watch.at(str(task))
        reads = [self._take(name) for name in task.reads]
        start = self.clock() if self.note is not None else 0
        self._waits(next((rank for rank in task.group if rank != self.rank), -1))  # it may be found lost at once
        made = self.kernels[task.kind](task, reads)
        self._goes_on()
        if made is NOT_YET:
            return False
        row.start = start
        if isinstance(made, Sequence):
            row.coming += (each for each in made if isinstance(each, Later) and not each.done())
            self._end(row, made)
        else:
            row.going = made
        return True

    def _take(self, name: str) -> Payload:
        """A value that has arrived."""
        found = self.values[name]
        if isinstance(found, Later):
            found = self.values[name] = self._result(found, found.handle.peer)
        return found

    def _result(self, ended: Handle | Later, peer: int) -> Any:
        """What has ended writes. If it failed, `watch` has the rank that it waited for."""
        self._waits(peer)
        made = ended.wait()
        self._goes_on()
        return made

    def _end(self, row: _Row, made: Sequence[Payload]) -> None:
        task = row.tasks[row.at]
        row.going = None
        row.at += 1
        end = self.clock() if self.note is not None else 0
        for name in task.reads:
            self._left[name] -= 1
            if not self._left[name] and name not in self._given:
                del self.values[name]
        for name, payload in zip(task.writes, made, strict=True):
            if self._left.get(name) or name in self._given:
                self.values[name] = payload
        if self.note is not None:
            self.note(Ran(task, row.reached, row.start, end))
            row.reached = end

    def _blocker(self, row: _Row) -> int:
        """The rank for which a lane waits, by way of other lanes of this rank perhaps; −1 where that cannot be said."""
        seen: set[Lane] = set()
        while row.going is None and row.head is not None and row.lane not in seen:
            seen.add(row.lane)
            missing = next((name for name in row.head.reads if name not in self.values), None)
            if missing is None:
                late = (value for value in map(self.values.get, row.head.reads) if isinstance(value, Later))
                return next((value.handle.peer for value in late if not value.done()), -1)
            if missing not in self._writer:
                return -1
            row = self._rows[self._writer[missing]]
        return row.going.peer if row.going is not None else next((each.handle.peer for each in row.coming), -1)

    def _waits(self, peer: int) -> None:
        if self.watch is not None and peer >= 0:
            self.watch.wait(peer)

    def _goes_on(self) -> None:
        if self.watch is not None:
            self.watch.go()
