"""Squeeze idle slots out of a schedule from its end on, without raising any rank's peak of memory."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from poise.pipeline.graph import Graph, graph_of
from poise.pipeline.memory import memory
from poise.pipeline.op import Kind
from poise.pipeline.schedule import Schedule

_NEVER = 1 << 60


def justify(schedule: Schedule, look: int = 4) -> Schedule:
    """The schedule with operations moved down into slots in which their rank would wait; all take one slot.

    Time runs backwards: each rank takes its last operation as soon as all that follow from it are placed, and where
    that has to wait, one of the `look` operations before it that can be placed, unless an operation in between would
    see more memory than the rank's peak was. What is left keeps its order, so the result can always run. (Justification
    to the right, as in project scheduling; weight gradients so leave the way of the input gradients in the drain.)
    """
    graph = graph_of(schedule)
    levels = memory(graph)
    unit = int(levels.scale * schedule.chunk)
    peaks = [max(levels.curve(rank), default=0) for rank in range(len(schedule.ranks))]
    rank_of, change = graph.rank.tolist(), _changes(graph, unit)
    user, follows = _after(graph)
    needs = graph.needs.tolist()
    left = [list(range(low, high)) for low, high in pairwise(graph.first)]
    placed: list[list[int]] = [[] for _ in left]
    held, busy = [0] * len(left), [0] * len(left)
    ends = [_NEVER] * graph.first[-1] + [0]  # the last one for "nothing follows", which is index −1
    wakes = [(0, rank) for rank in range(len(left))]
    while wakes:
        now, rank = heappop(wakes)
        row = left[rank]
        if now < busy[rank] or not row:
            continue
        level = highest = held[rank]
        for place in range(len(row) - 1, max(-1, len(row) - 1 - look), -1):
            index = row[place]
            takes = change[index]
            able = ends[user[index]] <= now and ends[follows[index]] <= now
            if able and (takes <= 0 or place == len(row) - 1 or highest + takes <= peaks[rank]):
                del row[place]
                placed[rank].append(index)
                held[rank] += takes
                ends[index] = busy[rank] = now + 1
                heappush(wakes, (now + 1, rank))
                if needs[index] >= 0 and rank_of[needs[index]] != rank:
                    heappush(wakes, (now + 1, rank_of[needs[index]]))
                break
            level += takes
            if level > highest:
                highest = level
    ops = [op for row in schedule.ranks for op in row]
    return replace(schedule, ranks=tuple(tuple(ops[index] for index in reversed(row)) for row in placed))


def _changes(graph: Graph, unit: int) -> list[int]:
    """What each operation takes when time runs backwards: what it gives back otherwise."""
    by_kind = np.zeros(len(Kind), dtype=np.int64)
    by_kind[Kind.F], by_kind[Kind.W], by_kind[Kind.B] = -unit, unit, unit
    found: list[int] = by_kind[graph.kind].tolist()
    return found


def _after(graph: Graph) -> tuple[list[int], list[int]]:
    """For each operation the one elsewhere that uses its result, and the next of its stage and microbatch; or −1."""
    user, follows = [-1] * graph.first[-1], [-1] * graph.first[-1]
    for index, need in enumerate(graph.needs.tolist()):
        if need >= 0:
            user[need] = index
    tables = (graph.forward.tolist(), graph.gradient.tolist(), graph.weight.tolist())
    for one, two, three in zip(*tables, strict=True):
        if one >= 0:
            follows[one] = two
            if three != two:
                follows[two] = three
    return user, follows
