"""Gradients reduced over replicas of the whole Program, while others are still computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from poise.core.errors import ProgramError
from poise.program.content import Content
from poise.program.passes.given import for_stages
from poise.program.program import Builder, Program
from poise.program.task import Lane, Task, at, stem, version

LANE = "sync"
ADD = frozenset({"B", "W", "T"})
"""The kinds that add to sums of gradients, which they read as well."""
SUMS = frozenset({*ADD, "add", "scale", "all_reduce", "reduce_scatter"})
"""The kinds that write such sums."""
When = Literal["end", "run", "each"]


def reduced(
    program: Program, bytes: Sequence[float], when: When = "end", kind: str = "all_reduce",
    others: Mapping[str, float] | None = None,
) -> Program:  # fmt: skip
    """Reduce the gradients of each stage over replicas of the Program, which are not part of it.

    bytes: what a rank sends for each stage; a stage of 0 is left out.  others: the same by the names of weights that
    are no stage's own, as `out2` (a shard of the output layer) or `tied0`.  when: behind the last backward (`end`),
    behind each run of backwards on other stages, as sharded gradients are (`run`), or behind every backward (`each`);
    then every run begins with an empty sum. Shards of the output layer are reduced once.  kind: `all_reduce` or
    `reduce_scatter`. Each is a collective of one rank on the lane `sync`. The mean over microbatches is taken behind
    it. ProgramError where a rank updates weights more than once, and, but for `end`, where a backward adds to several
    sums.
    """
    given = for_stages("reduced", bytes, program)
    sizes = {f"w{stage}": each for stage, each in enumerate(given)} | dict(others or {})
    into = Builder.of(program)
    for rank in range(program.ranks):
        row = into.rows.get(Lane(rank, "compute"), [])
        _fits(rank, row, when)
        _Rank(into, rank, row, sizes, kind).reduce(ends(row, when))
    return into.build()


def added(task: Task) -> list[str]:
    """The sums of gradients that a backward adds to, without versions: `dw3`."""
    if task.kind not in ADD:
        return []
    read = {stem(name) for name in task.reads}
    return [stem(name) for name in task.writes if stem(name) in read]


def _fits(rank: int, row: Sequence[Task], when: When) -> None:
    updated = [stem(task.writes[0]) for task in row if task.kind == "update"]
    twice = next((name for name in updated if updated.count(name) > 1), None)
    if twice is not None:
        raise ProgramError(
            f"rank {rank} updates {twice} more than once a step; reductions stand behind the last gradient of a "
            "step, so take a schedule that updates once, or leave them out"
        )
    several = next((task for task in row if when != "end" and len(added(task)) > 1), None)
    if several is not None:
        raise ProgramError(f"rank {rank}: {several} adds to several sums; give each a backward of its own")


def ends(row: Sequence[Task], when: When) -> list[tuple[int, str]]:
    """(slot, sum of gradients): behind which tasks of a rank which sums are reduced, in order."""
    found: list[tuple[int, str]] = []
    last: dict[str, int] = {}
    shards: dict[str, int] = {}
    for slot, task in enumerate(row):
        own = added(task)
        if task.kind == "T":
            shards |= dict.fromkeys(own, slot)
        elif when == "each":
            found += [(slot, name) for name in own]
        elif own:
            if when == "run" and own[0] not in last:
                found += [(behind, name) for name, behind in last.items()]
                last.clear()
            last |= dict.fromkeys(own, slot)
    found += [(slot, name) for name, slot in (last | shards).items()]
    return sorted(found, key=lambda each: each[0])


def _all(into: Builder, rank: int) -> Iterator[Task]:
    for lane, tasks in into.rows.items():
        if lane.rank == rank:
            yield from tasks


class _Rank:
    def __init__(self, into: Builder, rank: int, row: list[Task], sizes: Mapping[str, float], kind: str) -> None:
        self.into, self.rank, self.row, self.sizes, self.kind = into, rank, row, sizes, kind
        self.fresh: dict[str, int] = {}
        """The highest version of each sum of gradients."""
        for task in _all(into, rank):
            if task.kind in SUMS:
                for name in task.writes:
                    self.fresh[stem(name)] = max(self.fresh.get(stem(name), 0), version(name))

    def reduce(self, found: list[tuple[int, str]]) -> None:
        """Add the reductions to the lane `sync`, and what is behind them to the end of the rank's computations."""
        parts: dict[str, list[str]] = {}
        last: dict[str, str] = {}
        begun: dict[str, int] = {}
        for slot, name in found:
            if self.sizes.get(name[1:]):
                if name in begun:
                    self._restart(begun[name], name)
                begun[name] = slot + 1
                last[name] = next(each for each in self.row[slot].writes if stem(each) == name)
                parts.setdefault(name, []).append(self._sync(last[name], self.row[slot]))
        self._behind({last[name]: each for name, each in parts.items()})

    def _restart(self, slot: int, name: str) -> None:
        """The first backward that adds to a sum from `slot` on adds to an empty one."""
        while name not in added(self.row[slot]):
            slot += 1
        task = self.row[slot]
        old = next(each for each in task.reads if stem(each) == name)
        empty = self.into.give(self._next(old), Content({}))
        self.row[slot] = task._replace(reads=tuple(empty if each == old else each for each in task.reads))

    def _sync(self, value: str, behind: Task) -> str:
        done, name = self._next(value), stem(value)[1:]
        arg = behind.arg[0] if name == f"w{behind.arg[0]}" else name
        self.into.add(Task(self.kind, self.rank, LANE, (value,), (done,), self.sizes[name], (self.rank,), arg))
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
