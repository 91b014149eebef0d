"""Steady states of any placement at its true times: one microbatch's operations in a table that repeats.

Modulo scheduling (Rau, MICRO 1994), as compilers pipeline loops: on each rank an operation takes the first place behind
what it waits for that is free in every period. The shorter the period, the longer operations wait for a place, and the
more a rank holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from poise.pipeline.constraint_graph import Rows
from poise.pipeline.op import Kind
from poise.pipeline.scheduling_problem import SchedulingProblem

F, I, W = Kind.F, Kind.I, Kind.W  # noqa: E741

Begins = dict[tuple[Kind, int], int]
"""When the operations of microbatch 0 begin, by kind and stage."""

STEPS = 50
"""Periods are tried in steps of this part of the shortest one …"""

LONGEST = 3
"""… up to this many times that."""


def steady(problem: SchedulingProblem, count: int) -> Iterator[partial[Rows]]:
    """Makers of the schedules of the shortest periods of which the shop has room for the steady state."""
    least = max(1, max(problem.work) // problem.microbatches)
    found: list[Begins] = []
    for step in range(STEPS * (LONGEST - 1) + 1):
        period = least + least * step // STEPS
        begins = _begins(problem, period)
        if begins and begins not in found and _fits(problem, begins, period):
            found.append(begins)
            yield partial(_made, problem, begins, period)
            if len(found) == count:
                return


def _begins(problem: SchedulingProblem, period: int) -> Begins | None:
    """Down, back up, and the weight gradients last; None where a rank has no gap that is long enough."""
    stages = range(problem.stages)
    found: Begins = {}
    tables: list[list[tuple[int, int]]] = [[] for _ in range(problem.ranks)]
    now = 0
    for kind, way in ((F, stages), (I, stages[::-1])):
        for stage in way:
            begin = _place(tables[problem.route[stage]], now, problem.ticks(kind, stage), period)
            if begin is None:
                return None
            found[kind, stage] = begin
            ahead = stage if kind is F else stage - 1
            now = begin + problem.ticks(kind, stage) + (problem.hops[ahead] if 0 <= ahead < problem.stages - 1 else 0)
    for stage in stages[::-1]:
        ready = found[I, stage] + problem.ticks(I, stage)
        begin = _place(tables[problem.route[stage]], ready, problem.ticks(W, stage), period)
        if begin is None:
            return None
        found[W, stage] = begin
    return found


def _place(table: list[tuple[int, int]], now: int, ticks: int, period: int) -> int | None:
    """The first instant from `now` on that is free for so long in every period; it is then taken."""
    for begin in sorted({now, *(now + (end - now) % period for _, end in table)}):
        low = begin % period
        high = low + ticks
        turns = (-period, 0, period)
        if ticks <= period and all(
            high + turn <= one or two <= low + turn for one, two in table for turn in turns
        ):  # fmt: skip
            if ticks:
                table.append((low, high))
            return begin
    return None


def _fits(problem: SchedulingProblem, begins: Begins, period: int) -> bool:
    """Whether no rank ever holds more than it may, in the steady state."""
    late = 1 + max(begins.values()) // period
    for rank, stages in enumerate(problem.at):
        changes = []
        for stage in stages:
            changes.append((begins[F, stage], problem.size))
            changes.append((begins[I, stage] + problem.ticks(I, stage), problem.kept - problem.size))
            changes.append((begins[W, stage] + problem.ticks(W, stage), -problem.kept))
        for stage in stages:
            now = begins[F, stage] % period + late * period
            if sum(((now - at) // period + 1) * change for at, change in changes) > problem.room[rank]:
                return False
    return True


def _made(problem: SchedulingProblem, begins: Begins, period: int, microbatches: int) -> Rows:
    """Every operation a period behind that of the microbatch before; of those at one instant the shorter one first."""
    far = max(begins.values()) + period * microbatches >= 1 << 60
    turns = np.arange(microbatches).astype(object if far else np.int64) * period
    ranks = []
    for stages in problem.at:
        keys = sorted((problem.ticks(kind, stage), kind, stage) for stage in stages for kind in (F, I, W))
        at = np.concatenate([begins[kind, stage] + turns for _, kind, stage in keys])
        rows = [(kind * problem.stages + stage) * microbatches + np.arange(microbatches) for _, kind, stage in keys]
        ranks.append(np.concatenate(rows)[np.argsort(at, kind="stable")])
    return Rows("modulo", tuple(ranks))
