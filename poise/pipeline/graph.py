"""The operations of a schedule as arrays, and for each the one on another rank whose result it waits for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScheduleError
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule

Ints = NDArray[np.int64]

_SPARSE = 100
"""How many (stage, microbatch) pairs there may be to an operation before the schedule is surely incomplete."""

_GRADIENT = "I (with a W) or one B"


@dataclass(frozen=True)
class Graph:
    """All computing operations, rank after rank in order.

    `first[rank]` to `first[rank + 1]` are the operations of a rank. The tables `forward`, `gradient` and `weight` hold,
    by stage · microbatches + microbatch, the index of F, of I or B, and of W or B; −1 where the pair is skipped.
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

    @cached_property
    def needs(self) -> Ints:
        """For each operation the one of the neighbouring stage that it waits for, or −1."""
        stages, microbatches = self.schedule.stages, self.schedule.microbatches
        before, after = _neighbours(self.forward.reshape(stages, microbatches) >= 0)
        found = np.full(len(self.rank), -1)
        for table, neighbour in ((self.forward, before), (self.gradient, after)):
            pairs = np.flatnonzero((table >= 0) & (neighbour >= 0))
            found[table[pairs]] = table[neighbour[pairs] * microbatches + pairs % microbatches]
        return found

    def at(self, index: int) -> tuple[int, int, Op]:
        """Rank, slot and operation of an index."""
        rank = int(self.rank[index])
        slot = index - self.first[rank]
        return rank, slot, self.schedule.ranks[rank][slot]

    def place(self, index: int) -> str:
        """The same in words."""
        rank, slot, op = self.at(index)
        return f"{op} (rank {rank}, slot {slot})"


def _neighbours(present: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """For each (stage, microbatch) the nearest stage before and after it that is not skipped, or −1; flat."""
    stages = np.where(present, np.arange(len(present))[:, None], -1)
    edge = np.full((1, present.shape[1]), -1)
    before = np.vstack([edge, np.maximum.accumulate(stages, axis=0)[:-1]])
    far = np.where(present, stages, len(present))
    after = np.vstack([np.minimum.accumulate(far[::-1], axis=0)[::-1][1:], edge + 1 + len(present)])
    return before.ravel(), np.where(after == len(present), -1, after).ravel()


def graph_of(schedule: Schedule) -> Graph:
    """The graph of a schedule that computes everything once and in possible order on each rank, or ScheduleError."""
    schedule = schedule.compute()
    ops = list(chain.from_iterable(schedule.ranks))
    lengths = [len(row) for row in schedule.ranks]
    columns: Any = np.array(ops, dtype=np.int64).reshape(-1, 3).T
    stage, kind, microbatch = columns
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
    tables = [_table(schedule, first, key, kind, which, ops) for which in ((0,), (1, 3), (2, 3))]
    graph = Graph(schedule, first, rank, stage, microbatch, kind, *tables)
    _complete(graph, ops, key)
    _ordered(graph)
    return graph


def _plausible(schedule: Schedule, ops: list[Op]) -> None:
    """A number far beyond what the operations can fill is a fault to be named before tables of its size are made."""
    if schedule.stages * schedule.microbatches <= _SPARSE * len(ops) + len(schedule.skipped):
        return
    there = {(op.stage, op.microbatch) for op in ops} | schedule.skipped
    batches = range(schedule.microbatches)
    missing = next((s, b) for s in range(schedule.stages) for b in batches if (s, b) not in there)
    raise ScheduleError(
        f"{missing[0]}F{missing[1]} never runs: {len(ops)} operations are too few for {schedule.stages} stages and "
        f"{schedule.microbatches} microbatches, the largest numbers that occur; number both from 0 without gaps"
    )


def _table(schedule: Schedule, first: list[int], key: Ints, kind: Ints, which: tuple[int, ...], ops: list[Op]) -> Ints:
    """Index by (stage, microbatch) of the operations of the kinds `which`, none of which may come twice."""
    size = schedule.stages * schedule.microbatches
    chosen = np.flatnonzero(np.isin(kind, which))
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
    """Every microbatch of every stage forward and backward, unless skipped."""
    schedule = graph.schedule
    wanted = np.ones(schedule.stages * schedule.microbatches, dtype=bool)
    for stage, microbatch in schedule.skipped:
        wanted[stage * schedule.microbatches + microbatch] = False
    names = ((graph.forward, "forward", "F"), (graph.gradient, "backward", "B"), (graph.weight, "weight gradient", "W"))
    for table, word, letter in names:
        wrong = np.flatnonzero((table >= 0) != wanted)
        if not len(wrong):
            continue
        stage, microbatch = divmod(int(wrong[0]), schedule.microbatches)
        if not wanted[wrong[0]]:
            raise ScheduleError(f"{graph.place(int(table[wrong[0]]))} runs, though that stage is to be skipped")
        homes = " and ".join(map(str, schedule.homes[stage])) or "some"
        raise ScheduleError(
            f"{stage}{letter}{microbatch} never runs: stage {stage} (rank {homes}) has no {word} of microbatch "
            f"{microbatch}; every microbatch passes every stage forward and backward once, so add it"
        )
    split = np.zeros(len(wanted), dtype=bool)
    split[key[graph.kind == Kind.I]] = True
    fused = graph.kind == Kind.B
    doubled = np.flatnonzero(fused & split[key])
    if len(doubled):
        raise ScheduleError(f"{graph.place(int(doubled[0]))} is beside an I of the same microbatch; use {_GRADIENT}")


def _ordered(graph: Graph) -> None:
    """On one rank: forward before backward, backward before weight gradient."""
    for earlier, later in ((graph.forward, graph.gradient), (graph.gradient, graph.weight)):
        pairs = earlier >= 0
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
