"""Copies, recomputing and barriers are timed as a slow simulation does that settles all starts by their definitions."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from poise.pipeline import Costs, Kind, Op, Schedule, check, make, time
from poise.pipeline.communicate import communicate
from poise.pipeline.costs import Durations
from poise.pipeline.op import COPIES
from poise.pipeline.text import parse_json, read_text, write_json, write_text

from .cases import beside

Place = tuple[int, int]
"""Rank and slot."""


class Slow:
    """All starts begin at 0 and rise until each is as late as what it waits for."""

    def __init__(self, schedule: Schedule, durations: Durations) -> None:
        self.schedule, self.durations = schedule, durations
        self.where = {op: (rank, slot) for rank, row in enumerate(schedule.ranks) for slot, op in enumerate(row)}
        self.start = dict.fromkeys(self.where.values(), 0)
        self.copied = {op: 0 for op in self.where if op.kind in COPIES}
        while True:
            before = dict(self.start), dict(self.copied)
            for op, place in self.where.items():
                self.start[place] = self.earliest(op, place)
            for rank in range(len(schedule.ranks)):
                self.links(rank)
            if before == (self.start, self.copied):
                break

    def ticks(self, op: Op) -> int:
        return self.durations.of(op.kind, op.stage, op.microbatch or 0, self.where[op][0])

    def end(self, op: Op) -> int:
        return self.start[self.where[op]] + (0 if op.kind in COPIES else self.ticks(op))

    def message(self, op: Op, to: int) -> int:
        return self.end(op) + self.durations.hop(self.where[op][0], to)

    def gradient(self, stage: int, batch: int) -> Op:
        split = Op(stage, Kind.I, batch)
        return split if split in self.where else Op(stage, Kind.B, batch)

    def earliest(self, op: Op, place: Place) -> int:
        rank, slot = place
        stage, kind, batch = op.stage, op.kind, op.microbatch or 0
        found = [self.end(self.schedule.ranks[rank][slot - 1])] if slot else [0]
        last = self.schedule.stages - 1
        if kind is Kind.F and stage:
            found.append(self.message(Op(stage - 1, Kind.F, batch), rank))
        if kind in (Kind.I, Kind.B):
            if stage < last:
                found.append(self.message(self.gradient(stage + 1, batch), rank))
            elif self.schedule.barriers:
                found.append(self.barrier(Kind.T if self.schedule.barriers == 2 else Kind.S, batch))
            back = Op(stage, Kind.RELOAD, batch)
            if back in self.where:
                found.append(self.copied[back] + self.ticks(back))
        if kind is Kind.S:
            found.append(self.message(Op(last, Kind.F, batch), rank))
        if kind is Kind.T:
            found.append(self.barrier(Kind.S, batch))
        if kind is Kind.OFFLOAD:
            found.append(self.copied[op] + self.ticks(op))
        return max(found)

    def barrier(self, kind: Kind, batch: int) -> int:
        shards = range(len(self.schedule.ranks))
        return max(self.end(Op(shard, kind, batch)) for shard in shards) + self.durations.barrier

    def links(self, rank: int) -> None:
        """Copies in the order in which what they copy is there; two links, or one for both ways."""
        queues: dict[object, list[tuple[int, Op, int]]] = {}
        for slot, op in enumerate(self.schedule.ranks[rank]):
            if op.kind is Kind.RELOAD:
                queues.setdefault(self.durations.shared_copy or op.kind, []).append((slot, op, self.start[rank, slot]))
            elif op.kind is Kind.OFFLOAD:
                again = Op(op.stage, Kind.R, op.microbatch)
                made = again if again in self.where else Op(op.stage, Kind.F, op.microbatch)
                key = self.durations.shared_copy or op.kind
                queues.setdefault(key, []).append((self.where[made][1], op, self.end(made)))
        for queue in queues.values():
            free = 0
            for _, op, ready in sorted(queue):
                self.copied[op] = max(free, ready)
                free = self.copied[op] + self.ticks(op)


def agree(schedule: Schedule, costs: Costs) -> None:
    durations = costs.at(len(schedule.ranks), schedule.stages, schedule.microbatches)
    timing, slow = time(schedule, costs), Slow(schedule, durations)
    assert timing.scale == durations.scale
    assert timing.starts == [
        slow.start[rank, slot] for rank, row in enumerate(schedule.ranks) for slot in range(len(row))
    ]
    ops = [op for row in schedule.ranks for op in row]
    assert {ops[copy.number]: copy.start for copy in timing.copies} == slow.copied
    assert timing.makespan == Fraction(max(slow.end(op) for op in slow.where), timing.scale)


@st.composite
def any_costs(draw: st.DrawFn, ranks: int, stages: int, microbatches: int) -> Costs:
    def some(count: int) -> list[int]:
        return draw(st.lists(st.integers(1, 7), min_size=count, max_size=count))

    return Costs.of(
        some(stages), some(stages), some(stages), some(ranks), r=some(stages), offload=some(stages), rank=some(ranks),
        reload=some(stages), s=some(ranks), t=some(ranks), barrier=draw(st.integers(0, 3)),
        shared_copy=draw(st.booleans()), microbatch=some(microbatches),
    )  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1 << 30), st.data())
def test_copies_and_recomputing(seed: int, data: st.DataObject) -> None:
    schedule = beside(seed)
    agree(schedule, data.draw(any_costs(len(schedule.ranks), schedule.stages, schedule.microbatches)))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.sampled_from(["vocab_1", "vocab_2"]), st.data())
def test_barriers(p: int, m: int, name: str, data: st.DataObject) -> None:
    """An order that was made for other times."""
    schedule = make(name, p, m, costs=data.draw(any_costs(p, p, m)))
    agree(schedule, data.draw(any_costs(p, p, m)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30))
def test_memory_and_forms(seed: int) -> None:
    schedule = beside(seed)
    proof = check(schedule)
    peaks = []
    for row in schedule.ranks:
        level, most, again = 0, 0, {(op.stage, op.microbatch) for op in row if op.kind is Kind.R}
        for op in row:
            level += op.kind in (Kind.F, Kind.R, Kind.RELOAD)
            most = max(most, level)
            level -= op.kind in (Kind.W, Kind.B, Kind.OFFLOAD)
            level -= op.kind is Kind.F and (op.stage, op.microbatch) in again
        peaks.append(most * schedule.chunk)
        assert level == 0
    assert list(proof.peak_memory) == peaks
    assert read_text(write_text(schedule)) == schedule == parse_json(write_json(schedule))
    full = communicate(schedule)
    assert check(full) == proof
    for row, bare in zip(full.ranks, schedule.ranks, strict=True):
        places = [row.index(op) for op in bare]
        assert all(one < two for one, two in pairwise(places))
