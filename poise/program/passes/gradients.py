"""Gradients reduced over replicas of the whole Program, while others are still computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from poise.core.errors import ProgramError
from poise.program.content import Content
from poise.program.passes.given import for_stages
from poise.program.program import Builder, Program
from poise.program.task import Lane, Task, at, stem, version

LANE = "sync"
BACKWARDS = ("B", "W")
SUMS = frozenset({*BACKWARDS, "T", "add", "scale", "all_reduce", "reduce_scatter"})
"""The kinds that write sums of gradients."""
When = Literal["end", "run"]


def reduced(program: Program, bytes: Sequence[float], when: When = "end", kind: str = "all_reduce") -> Program:
    """Reduce the gradients of each stage over replicas of the Program, which are not part of it.

    bytes: what a rank sends for each stage; a stage of 0 is left out.  when: behind the stage's last backward, or
    behind each run of backwards on other stages, as sharded gradients are; then every run begins with an empty sum.
    kind: `all_reduce` or `reduce_scatter`. Each is a collective of one rank on the lane `sync`. The mean over
    microbatches is taken behind it. ProgramError where a rank updates weights more than once, and where a backward
    adds to several sums.
    """
    given = for_stages("reduced", bytes, program)
    into = Builder.of(program)
    for rank in range(program.ranks):
        row = into.rows.get(Lane(rank, "compute"), [])
        _fits(rank, row)
        _Rank(into, rank, row, given, kind).reduce(buckets(row, when))
    return into.build()


def _fits(rank: int, row: Sequence[Task]) -> None:
    updated = [stem(task.writes[0]) for task in row if task.kind == "update"]
    twice = next((name for name in updated if updated.count(name) > 1), None)
    if twice is not None:
        raise ProgramError(
            f"rank {rank} updates {twice} more than once a step; reductions stand behind the last gradient of a "
            "step, so take a schedule that updates once, or leave them out"
        )
    for task in row:
        if (
            task.kind in BACKWARDS
            and len({stem(name) for name in task.writes} & {stem(name) for name in task.reads}) > 1
        ):
            raise ProgramError(f"rank {rank}: {task} adds to several sums; give each a backward of its own")


def buckets(row: Sequence[Task], when: When) -> list[tuple[int, int]]:
    """(slot, stage): behind which tasks of a rank the gradients of which stage are reduced, in order."""
    found: dict[int, int] = {}
    last: dict[int, int] = {}
    for slot, task in enumerate(row):
        if task.kind in BACKWARDS:
            stage = task.arg[0]
            if when == "run" and last and stage not in last:
                found |= {behind: before for before, behind in last.items()}
                last.clear()
            last[stage] = slot
    found |= {behind: stage for stage, behind in last.items()}
    return sorted(found.items())


def _all(into: Builder, rank: int) -> Iterator[Task]:
    for lane, tasks in into.rows.items():
        if lane.rank == rank:
            yield from tasks


class _Rank:
    def __init__(self, into: Builder, rank: int, row: list[Task], bytes: Sequence[float], kind: str) -> None:
        self.into, self.rank, self.row, self.bytes, self.kind = into, rank, row, bytes, kind
        self.fresh: dict[str, int] = {}
        """The highest version of each sum of gradients."""
        for task in _all(into, rank):
            if task.kind in SUMS:
                for name in task.writes:
                    self.fresh[stem(name)] = max(self.fresh.get(stem(name), 0), version(name))

    def reduce(self, found: list[tuple[int, int]]) -> None:
        """Add the reductions to the lane `sync`, and what is behind them to the end of the rank's computations."""
        parts: dict[int, list[str]] = {}
        last: dict[int, str] = {}
        begun: dict[int, int] = {}
        for slot, stage in found:
            if self.bytes[stage]:
                if stage in begun:
                    self._restart(begun[stage], stage)
                begun[stage] = slot + 1
                last[stage] = self.row[slot].writes[-1]
                parts.setdefault(stage, []).append(self._sync(last[stage], stage))
        self._behind({last[stage]: each for stage, each in parts.items()})

    def _restart(self, slot: int, stage: int) -> None:
        """The first backward of a stage from `slot` on adds to an empty sum."""
        while self.row[slot].kind not in BACKWARDS or self.row[slot].arg[0] != stage:
            slot += 1
        task = self.row[slot]
        old = next(name for name in task.reads if stem(name) == stem(task.writes[-1]))
        empty = self.into.give(self._next(old), Content({}))
        self.row[slot] = task._replace(reads=tuple(empty if name == old else name for name in task.reads))

    def _sync(self, value: str, stage: int) -> str:
        done = self._next(value)
        self.into.add(Task(self.kind, self.rank, LANE, (value,), (done,), self.bytes[stage], (self.rank,), stage))
        return done

    def _behind(self, parts: dict[str, list[str]]) -> None:
        """The rank adds up and scales what has been reduced before its first update."""
        kept: list[Task] = []
        tail: list[Task] = []
        for task in self.row:
            if task.kind == "scale" and task.reads[0] in parts:
                done = parts[task.reads[0]]
                total = done[0] if len(done) == 1 else self._next(done[0])
                if len(done) > 1:
                    tail.append(Task("add", self.rank, "compute", tuple(done), (total,)))
                tail.append(task._replace(reads=(total,)))
            else:
                kept.append(task)
        first = next((slot for slot, task in enumerate(kept) if task.kind == "update"), len(kept))
        self.row[:] = [*kept[:first], *tail, *kept[first:]]

    def _next(self, value: str) -> str:
        name = stem(value)
        self.fresh[name] = self.fresh.get(name, 0) + 1
        return at(f"{name}#{self.fresh[name]}", self.rank)
