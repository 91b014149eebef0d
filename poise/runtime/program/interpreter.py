"""Runs the lanes of one rank of a Program: computations one after the other, everything that moves data beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import NamedTuple, Protocol

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
    is called behind every task.
    """

    program: Program
    rank: int
    kernels: Mapping[str, Kernel]
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
        computing = [row for row in self._rows.values() if row.lane.name.startswith("compute")]
        moving = [row for row in self._rows.values() if not row.lane.name.startswith("compute")]
        while any(row.head is not None for row in computing):
            self._pump(moving)
            ready = [row for row in computing if row.head is not None and self._there(row.head)]
            if ready:
                self._begin(min(ready, key=lambda row: row.reached))
            else:
                self._wait(next(row for row in computing if row.head is not None))
        while any(row.head is not None for row in moving):
            self._pump(moving)
            unfinished = next((row for row in moving if row.head is not None), None)
            if unfinished is not None:
                self._wait(unfinished)
        for row in moving:
            for later in list(row.coming):
                self._arrive(row, later)
        return self.values

    def _there(self, task: Task) -> bool:
        return all(name in self.values for name in task.reads)

    def _pump(self, rows: Sequence[_Row]) -> None:
        """Let lanes that move data go as far as they can without waiting."""
        moved = True
        while moved:
            moved = False
            for row in rows:
                while row.head is not None:
                    if row.going is not None:
                        if not row.going.done():
                            break
                        self._end(row, row.going.wait())
                    elif len(row.coming) >= AHEAD or not self._there(row.head) or not self._begin(row):
                        break
                    moved = True

    def _begin(self, row: _Row) -> bool:
        """Begin the task at the head of a lane; False where its kernel cannot yet."""
        task = row.tasks[row.at]
        if self.watch is not None and row.lane.name.startswith("compute"):
            self.watch.at(str(task))
        reads = [self._take(name) for name in task.reads]
        start = self.clock() if self.note is not None else 0
        made = self.kernels[task.kind](task, reads)
        if made is NOT_YET:
            return False
        row.start = start
        if isinstance(made, Sequence):
            row.coming += (each for each in made if isinstance(each, Later))
            self._end(row, made)
        else:
            row.going = made
        return True

    def _take(self, name: str) -> Payload:
        """A value, once it has arrived."""
        found = self.values[name]
        return self._arrive(self._rows[self._writer[name]], found) if isinstance(found, Later) else found

    def _arrive(self, row: _Row, later: Later) -> Payload:
        self._waits(later.handle.peer)
        payload = later.wait()
        self._goes_on()
        row.coming.remove(later)
        for name, value in self.values.items():
            if value is later:
                self.values[name] = payload
                break
        return payload

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

    def _wait(self, row: _Row) -> None:
        """Wait for one thing that the head of a lane needs, whatever lane it comes from."""
        seen: set[Lane] = set()
        while row.going is None:
            seen.add(row.lane)
            assert row.head is not None
            missing = next((name for name in row.head.reads if name not in self.values), None)
            if missing is None:
                assert row.coming, f"{row.head} cannot begin; its kernel waits for something that no task brings"
                self._arrive(row, row.coming[0])
                return
            row = self._rows[self._writer[missing]]
            assert row.lane not in seen, f"{row.head} waits for itself; the Program was not proven"
        self._waits(row.going.peer)
        made = row.going.wait()
        self._goes_on()
        self._end(row, made)

    def _waits(self, peer: int) -> None:
        if self.watch is not None and peer >= 0:
            self.watch.wait(peer)

    def _goes_on(self) -> None:
        if self.watch is not None:
            self.watch.go()
