"""How much activation memory each rank holds with each operation; program order alone decides it, not time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm

import numpy as np

from poise.core.errors import ScheduleError
from poise.pipeline.graph import Graph, Ints
from poise.pipeline.op import Kind


@dataclass(frozen=True)
class Weights:
    """What one microbatch holds on a stage, in activations of a full stage.

    From its forward on a stage holds `activation` (default: its part of a full stage; one number or one per stage); the
    input gradient frees all but the part `kept`, which the weight gradient needs and frees. A backward in one piece
    frees all of it. Where a forward is recomputed, the stage holds its input alone, `boundary`, in between.
    """

    activation: Fraction | tuple[Fraction, ...] | None = None
    kept: Fraction = Fraction(1)
    boundary: Fraction = Fraction(0)


PLAIN = Weights()

Limit = Fraction | float | Sequence[Fraction | float]
"""The most activations of a full stage that a rank may hold: one for all, or one per rank."""


@dataclass(frozen=True)
class Memory:
    """Levels after each operation (flat, as in the graph) in units of 1 / `scale` of a full-stage activation.

    `highest` are those while it runs.
    """

    levels: Ints
    scale: int
    first: Sequence[int]
    highest: Ints

    @property
    def peaks(self) -> list[Fraction]:
        """The most that each rank ever holds."""
        rows = (self.highest[low:high] for low, high in pairwise(self.first))
        return [Fraction(int(row.max(initial=0)), self.scale) for row in rows]

    def curve(self, rank: int) -> list[int]:
        """The levels of one rank after each of its operations."""
        found: list[int] = self.levels[self.first[rank] : self.first[rank + 1]].tolist()
        return found


def memory(graph: Graph, weights: Weights = PLAIN) -> Memory:
    """The memory curve of every rank, exactly.

    A forward takes its memory when it starts and a backward gives it back when it ends. OFFLOAD gives it back where it
    is, since the rank waits there for the copy, and RELOAD takes it at its position, when the copy begins.
    """
    stages = graph.schedule.stages
    held = weights.activation if weights.activation is not None else graph.schedule.chunk
    each = held if isinstance(held, tuple) else (held,) * stages
    if len(each) != stages:
        raise ScheduleError(f"activation: {len(each)} values for {stages} stages; give one, or {stages}")
    scale = lcm(*(size.denominator for size in each)) * weights.kept.denominator * weights.boundary.denominator
    sizes = np.array([int(size * scale) for size in each])
    kept = np.array([int(size * weights.kept * scale) for size in each])
    inner = np.maximum(0, sizes - int(weights.boundary * scale))
    takes, gives = np.zeros((2, len(Kind), stages), dtype=np.int64)
    takes[Kind.F] = takes[Kind.RELOAD] = sizes
    gives[Kind.I], gives[Kind.W], gives[Kind.B], gives[Kind.OFFLOAD] = sizes - kept, kept, sizes, sizes
    takes[Kind.R] = inner
    given = gives[graph.kind, graph.stage]
    if graph.beside:
        again = np.flatnonzero(graph.beside[Kind.R] >= 0)
        given[graph.forward[again]] = inner[again // graph.schedule.microbatches]
    running = np.concatenate([[0], np.cumsum(takes[graph.kind, graph.stage] - given)])
    base = np.repeat(running[graph.first[:-1]], np.diff(graph.first))
    levels = running[1:] - base
    return Memory(levels, scale, graph.first, levels + given)


def per_rank(limit: Limit, ranks: int) -> list[Fraction]:
    """The limit of each rank; ScheduleError for another count."""
    given = list(limit) if isinstance(limit, Sequence) else [limit] * ranks
    if len(given) != ranks:
        raise ScheduleError(f"memory limit: {len(given)} values for {ranks} ranks; give one, or {ranks}")
    return [Fraction(str(each)) if isinstance(each, float) else Fraction(each) for each in given]


def within(graph: Graph, found: Memory, limit: Limit) -> None:
    """ScheduleError with the first operation that takes a rank above `limit` (full-stage microbatch activations)."""
    limits = per_rank(limit, len(graph.first) - 1)
    most = np.array([int(each * found.scale) for each in limits])
    over = np.flatnonzero(found.highest > most[graph.rank])
    if len(over):
        index = int(over[0])
        rank = int(graph.rank[index])
        raise ScheduleError(
            f"{graph.place(index)} takes rank {rank} to {float(Fraction(int(found.highest[index]), found.scale)):g} "
            f"full-stage activations of {float(limits[rank]):g}; the schedule needs "
            f"{float(max(found.peaks)):g} (rank {found.peaks.index(max(found.peaks))}): raise the limit to that, or "
            "choose a schedule with a lower peak (`poise train schedules` lists them)"
        )
