"""The operations of a schedule as arrays, and for each the one on another rank whose result it waits for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScheduleError
from poise.pipeline.op import WHOLE, Kind, Op
from poise.pipeline.schedule import Schedule

Ints = NDArray[np.int64]

_SPARSE = 100
"""How many (stage, microbatch) pairs there may be to an operation before the schedule is surely incomplete."""

_GRADIENT = "I (with a W) or one B"

_WHOLE = ", ".join(kind.name for kind in sorted(WHOLE))

_BESIDE = (Kind.R, Kind.OFFLOAD, Kind.RELOAD, Kind.S, Kind.T)


class Join(NamedTuple):
    """A barrier: `waiters` begin when all of `needed` have ended."""

    needed: list[int]
    waiters: list[int]


@dataclass(frozen=True)
class Graph:
    """All operations but communications, rank after rank in order.

    `first[rank]` to `first[rank + 1]` are the operations of a rank. The tables `forward`, `gradient` and `weight` hold,
    by stage · microbatches + microbatch, the index of F, of I or B, and of W or B; −1 where a microbatch does not pass
    the stage. `beside` has such a table for each of R, OFFLOAD, RELOAD, S and T if there is any of them.
    """

    schedule: Schedule
    first: list[int]
    rank: Ints
    stage: Ints
    microbatch: Ints
    kind: Ints
    forward: Ints
    gradient: Ints
    weight: Ints
    beside: dict[Kind, Ints]

    @cached_property
    def needs(self) -> Ints:
        """For each operation the one of the neighbouring stage that it waits for, or −1."""
        before, after = _neighbours(self.schedule)
        found = np.full(len(self.rank), -1)
        for table, neighbour in ((self.forward, before), (self.gradient, after)):
            pairs = np.flatnonzero(neighbour >= 0)
            found[table[pairs]] = table[neighbour[pairs]]
        return found

    @cached_property
    def waits(self) -> Ints:
        """`needs`, and for every S the forward of the last stage, whose result is sent to all shards."""
        if not self.schedule.barriers:
            return self.needs
        found = self.needs.copy()
        shards = np.flatnonzero(self.kind == Kind.S)
        last = (self.schedule.stages - 1) * self.schedule.microbatches
        found[shards] = self.forward[last + self.microbatch[shards]]
        return found

    @cached_property
    def joins(self) -> list[Join]:
        """The barriers of the vocabulary passes: for each microbatch that behind S and, of two, that behind T."""
        count = self.schedule.microbatches
        if not self.schedule.barriers:
            return []
        ranks = len(self.first) - 1
        one, two = (self.beside[kind].reshape(-1, count)[:ranks].T.tolist() for kind in (Kind.S, Kind.T))
        back = self.gradient[-count:].tolist()
        if self.schedule.barriers == 1:
            return [Join(one[batch], [*two[batch], back[batch]]) for batch in range(count)]
        both = ((Join(one[batch], two[batch]), Join(two[batch], [back[batch]])) for batch in range(count))
        return list(chain.from_iterable(both))

    def at(self, index: int) -> tuple[int, int, Op]:
        """Rank, slot and operation of an index."""
        rank = int(self.rank[index])
        slot = index - self.first[rank]
        return rank, slot, self.schedule.ranks[rank][slot]

    def place(self, index: int) -> str:
        """The same in words."""
        rank, slot, op = self.at(index)
        return f"{op} (rank {rank}, slot {slot})"


def _neighbours(schedule: Schedule) -> tuple[Ints, Ints]:
    """For each (stage, microbatch) the pair before and after it on the microbatch's path, or −1; flat."""
    stages, count = schedule.stages, schedule.microbatches
    before, after = np.full((stages, count), -1), np.full((stages, count), -1)
    pairs = np.arange(stages * count).reshape(stages, count)
    if schedule.paths is None:
        before[1:], after[:-1] = pairs[:-1], pairs[1:]
        return before.ravel(), after.ravel()
    for batch, path in enumerate(schedule.paths):
        for one, two in pairwise(path):
            before[two, batch], after[one, batch] = pairs[one, batch], pairs[two, batch]
    return before.ravel(), after.ravel()


def graph_of(schedule: Schedule) -> Graph:
    """The graph of a schedule that computes everything once and in possible order on each rank, or ScheduleError."""
    schedule = schedule.compute()
    ops = list(chain.from_iterable(schedule.ranks))
    lengths = [len(row) for row in schedule.ranks]
    stage, kind, microbatch = columns(ops)
    first = [0, *np.cumsum(lengths).tolist()]
    rank = np.repeat(np.arange(len(lengths)), lengths)
    bad = np.flatnonzero((stage >= schedule.stages) | (microbatch >= schedule.microbatches))
    if len(bad):
        index = int(bad[0])
        raise ScheduleError(
            f"rank {rank[index]}, slot {index - first[rank[index]]}: {ops[index]} is outside the schedule's "
            f"{schedule.stages} stages and {schedule.microbatches} microbatches; number both from 0"
        )
    _plausible(schedule, ops)
    key = stage * schedule.microbatches + microbatch
    main = [_table(schedule, first, key, kind, which, ops) for which in ((0,), (1, 3), (2, 3))]
    more = bool((kind > Kind.B).any())
    beside = {each: _table(schedule, first, key, kind, (each,), ops) for each in _BESIDE} if more else {}
    graph = Graph(schedule, first, rank, stage, microbatch, kind, main[0], main[1], main[2], beside)
    _complete(graph, ops, key)
    ordered(graph, (graph.forward, graph.gradient), (graph.gradient, graph.weight))
    if more or schedule.barriers:
        _beside(graph)
    return graph


def columns(ops: list[Op]) -> Any:
    """Stage, kind and microbatch of all operations."""
    flat: Any = chain.from_iterable(ops)
    try:
        return np.fromiter(flat, np.int64, 3 * len(ops)).reshape(-1, 3).T
    except TypeError:
        bare = next((op for op in ops if op.microbatch is None), ops[0])
        raise ScheduleError(f"{bare} has no microbatch; only {_WHOLE} do without one") from None


def _plausible(schedule: Schedule, ops: list[Op]) -> None:
    """What is far beyond what the operations can fill is a fault to be named before tables of its size are made."""
    stages, count = schedule.stages, schedule.microbatches
    paths = schedule.paths
    if paths is not None:
        if len(paths) != count:
            raise ScheduleError(f"{len(paths)} paths for {count} microbatches; give one for each")
        for batch, path in enumerate(paths):
            if not path or len({*path}) < len(path) or (path[0], path[-1]) != (0, stages - 1) or max(path) >= stages:
                raise ScheduleError(
                    f"microbatch {batch} has the path {' '.join(map(str, path)) or 'of no stages'}; a path goes from "
                    f"stage 0 to stage {stages - 1} and passes no stage twice"
                )
    if stages * count <= _SPARSE * len(ops):
        return
    there = {(op.stage, op.microbatch) for op in ops}
    wanted = ((s, b) for s in range(stages) for b in range(count) if paths is None or s in paths[b])
    missing = next((each for each in wanted if each not in there), (stages - 1, count - 1))
    raise ScheduleError(
        f"{missing[0]}F{missing[1]} never runs: {len(ops)} operations are too few for {stages} stages and "
        f"{count} microbatches, the largest numbers that occur; number both from 0 without gaps"
    )


def _table(schedule: Schedule, first: list[int], key: Ints, kind: Ints, which: tuple[int, ...], ops: list[Op]) -> Ints:
    """Index by (stage, microbatch) of the operations of the kinds `which`, none of which may come twice."""
    size = schedule.stages * schedule.microbatches
    chosen = np.flatnonzero(np.logical_or.reduce([kind == each for each in which]))
    table = np.full(size, -1)
    table[key[chosen]] = chosen
    if len(chosen) > int((table >= 0).sum()):
        again = next(int(index) for index in chosen if table[key[index]] != index)
        twin = int(table[key[again]])
        rank = int(np.searchsorted(first, twin, "right")) - 1
        raise ScheduleError(
            f"rank {rank}, slot {twin - first[rank]}: {ops[twin]} repeats {ops[again]}; a microbatch passes "
            "a stage once each way, so remove one of them"
        )
    return table


def _complete(graph: Graph, ops: list[Op], key: Ints) -> None:
    """Every microbatch forward and backward through every stage on its path."""
    schedule = graph.schedule
    wanted = np.ones((schedule.stages, schedule.microbatches), dtype=bool)
    for batch, path in enumerate(schedule.paths or ()):
        wanted[:, batch] = False
        wanted[list(path), batch] = True
    flat = wanted.ravel()
    names = ((graph.forward, "forward", "F"), (graph.gradient, "backward", "B"), (graph.weight, "weight gradient", "W"))
    for table, word, letter in names:
        wrong = np.flatnonzero((table >= 0) != flat)
        if not len(wrong):
            continue
        stage, microbatch = divmod(int(wrong[0]), schedule.microbatches)
        if not flat[wrong[0]]:
            raise ScheduleError(
                f"{graph.place(int(table[wrong[0]]))} runs, though stage {stage} is to be skipped: it is not on the "
                f"path of microbatch {microbatch}; remove it or put it on the path"
            )
        homes = " and ".join(map(str, schedule.homes[stage])) or "some"
        raise ScheduleError(
            f"{stage}{letter}{microbatch} never runs: stage {stage} (rank {homes}) has no {word} of microbatch "
            f"{microbatch}; every microbatch passes every stage forward and backward once, so add it"
        )
    split = np.zeros(len(flat), dtype=bool)
    split[key[graph.kind == Kind.I]] = True
    fused = graph.kind == Kind.B
    doubled = np.flatnonzero(fused & split[key])
    if len(doubled):
        raise ScheduleError(f"{graph.place(int(doubled[0]))} is beside an I of the same microbatch; use {_GRADIENT}")


def ordered(graph: Graph, *tables: tuple[Ints, Ints]) -> None:
    """Of each two tables the operations of one (stage, microbatch) are on one rank, that of the first table earlier."""
    for earlier, later in tables:
        pairs = (earlier >= 0) & (later >= 0)
        before, after = earlier[pairs], later[pairs]
        moved = np.flatnonzero(graph.rank[before] != graph.rank[after])
        if len(moved):
            one, two = int(before[moved[0]]), int(after[moved[0]])
            raise ScheduleError(
                f"{graph.place(two)} is not on the rank of {graph.place(one)}, where its activations are; move it there"
            )
        early = np.flatnonzero(before > after)
        if len(early):
            one, two = int(before[early[0]]), int(after[early[0]])
            raise ScheduleError(f"{graph.place(two)} comes before {graph.place(one)}, whose result it uses; swap them")


def _beside(graph: Graph) -> None:
    from poise.pipeline.copies import check_copies
    from poise.pipeline.vocabulary import check_vocabulary

    check_vocabulary(graph)
    if graph.beside:
        check_copies(graph)
