"""One training step, or any other distributed computation, as data: for each lane of each rank its tasks in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from poise.core.collector import paused
from poise.program.content import Atoms, Content
from poise.program.task import Lane, Task, Value, at

if TYPE_CHECKING:
    from poise.program.index import Index
    from poise.program.prove import Limits, Proof

Rows = Mapping[Lane, Sequence[Task]]

NOTHING = Value("")


@dataclass(frozen=True)
class Program:
    """Tasks in lanes. Order within a lane is the schedule; across lanes only values bind.

    A value is written once, and read on the rank where it is. Sends and receives of one rank to another match first in,
    first out; so do collectives of one group. Durations are no part of a Program: a clock gives them.
    """

    rows: Mapping[Lane, tuple[Task, ...]]
    values: Mapping[str, Value] = field(default_factory=dict)
    """Sizes and tiers; a value that is not listed takes no memory and is on the device."""
    given: Mapping[str, Content] = field(default_factory=dict)
    """What is there before the first task: inputs, weights, empty sums of gradients."""
    demands: Mapping[str, Atoms] = field(default_factory=dict)
    """For each parameter the gradient with which it must be updated; `w3#2`: that of its update number 2."""
    paths: tuple[tuple[int, ...], ...] = ()
    """For each sample the stages that it passes, in order."""
    accepts: frozenset[str] = frozenset()
    """Departures from exact training that are meant: `stale weights`."""
    name: str = ""

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of its tasks."""
        return frozenset(task.kind for task in self.tasks())

    @cached_property
    def index(self) -> Index:
        """All tasks numbered, with what each waits for; ProgramError where the parts do not fit together."""
        from poise.program.index import Index

        with paused():
            return Index(self)

    @property
    def ranks(self) -> int:
        """How many ranks there are: one more than the highest."""
        return 1 + max((lane.rank for lane in self.rows), default=-1)

    @cached_property
    def shards(self) -> int:
        """In how many shards the output layer is, by the tasks S."""
        return len({task.arg[0] for task in self.tasks() if task.kind == "S" and isinstance(task.arg, tuple)})

    def tasks(self) -> Iterator[Task]:
        """All tasks, lane after lane."""
        for row in self.rows.values():
            yield from row

    def value(self, name: str) -> Value:
        """A value's size and tier."""
        return self.values.get(name) or NOTHING._replace(name=name)

    def prove(self, limits: Limits | None = None) -> Proof:
        """Prove that the Program runs and trains right; ProgramError with lane, slot, rule and cure if not."""
        from poise.program.prove import prove

        return prove(self, limits)

    def with_rows(self, rows: Rows) -> Program:
        """The same with other rows; lanes without tasks are left out."""
        return replace(self, rows={lane: tuple(row) for lane, row in rows.items() if row})


class Builder:
    """Makes a Program task by task. `name` is that of the Program."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.rows: dict[Lane, list[Task]] = defaultdict(list)
        self.values: dict[str, Value] = {}
        self.given: dict[str, Content] = {}
        self.demands: dict[str, Atoms] = {}
        self.paths: tuple[tuple[int, ...], ...] = ()
        self.accepts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, program: Program) -> Builder:
        """One that goes on from an existing Program."""
        made = cls(program.name)
        made.rows.update({lane: list(row) for lane, row in program.rows.items()})
        made.values, made.given = dict(program.values), dict(program.given)
        made.demands, made.paths, made.accepts = dict(program.demands), program.paths, program.accepts
        return made

    def add(self, task: Task) -> None:
        """Put a task behind those of its lane."""
        self.rows[Lane(task.rank, task.lane)].append(task)

    def give(self, name: str, content: Content, bytes: float = 0.0, tier: str = "device") -> str:
        """A value that is there before the first task."""
        self.given[name] = content
        return self.size(name, bytes, tier)

    def size(self, name: str, bytes: float, tier: str = "device") -> str:
        """Note the size of a value."""
        if bytes or tier != "device":
            self.values[name] = Value(name, bytes, tier)
        return name

    def message(self, name: str, source: int, target: int, work: float = 0.0) -> None:
        """Send the value `name` (without a rank) from one rank to another, on the lanes between the two."""
        pair = (source, target)
        self.add(Task("send", source, f"to {target}", (at(name, source),), (), work, pair))
        self.add(Task("recv", target, f"from {source}", (), (at(name, target),), work, pair))

    def build(self) -> Program:
        """The Program."""
        rows = {lane: tuple(row) for lane, row in self.rows.items() if row}
        return Program(rows, self.values, self.given, self.demands, self.paths, self.accepts, self.name)
