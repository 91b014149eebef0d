"""How much activation memory each rank holds after each operation; program order alone decides it, not time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
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
    frees all of it.
    """

    activation: Fraction | tuple[Fraction, ...] | None = None
    kept: Fraction = Fraction(1)


PLAIN = Weights()


@dataclass(frozen=True)
class Memory:
    """Levels after each operation (flat, as in the graph) in units of 1 / `scale` of a full-stage activation."""

    levels: Ints
    scale: int
    first: Sequence[int]

    @property
    def peaks(self) -> list[Fraction]:
        """The most that each rank ever holds."""
        return [Fraction(max(self.curve(rank), default=0), self.scale) for rank in range(len(self.first) - 1)]

    def curve(self, rank: int) -> list[int]:
        """The levels of one rank after each of its operations."""
        found: list[int] = self.levels[self.first[rank] : self.first[rank + 1]].tolist()
        return found


def memory(graph: Graph, weights: Weights = PLAIN) -> Memory:
    """The memory curve of every rank, exactly.

    A forward takes its memory when it starts and a backward gives it back when it ends, so the level after a forward is
    what the rank holds during it, and the peak is among these levels.
    """
    stages = graph.schedule.stages
    held = weights.activation if weights.activation is not None else graph.schedule.chunk
    each = held if isinstance(held, tuple) else (held,) * stages
    if len(each) != stages:
        raise ScheduleError(f"activation: {len(each)} values for {stages} stages; give one, or {stages}")
    scale = lcm(*(size.denominator for size in each)) * weights.kept.denominator
    sizes = np.array([int(size * scale) for size in each])
    kept = np.array([int(size * weights.kept * scale) for size in each])
    changes = np.zeros((4, stages), dtype=np.int64)
    changes[Kind.F], changes[Kind.I], changes[Kind.W], changes[Kind.B] = sizes, kept - sizes, -kept, -sizes
    running = np.concatenate([[0], np.cumsum(changes[graph.kind, graph.stage])])
    lengths = np.diff(graph.first)
    base = np.repeat(running[graph.first[:-1]], lengths)
    return Memory(running[1:] - base, scale, graph.first)


def within(graph: Graph, found: Memory, limit: Fraction | float) -> None:
    """ScheduleError with the first operation that takes a rank above `limit` (full-stage microbatch activations)."""
    over = np.flatnonzero(found.levels > int(limit * found.scale))
    if len(over):
        index = int(over[0])
        rank = int(graph.rank[index])
        raise ScheduleError(
            f"{graph.place(index)} takes rank {rank} to {float(Fraction(int(found.levels[index]), found.scale)):g} "
            f"full-stage activations of {float(limit):g}; the schedule needs "
            f"{float(max(found.peaks)):g} (rank {found.peaks.index(max(found.peaks))}): raise the limit to that, or "
            "choose a schedule with a lower peak (`poise train schedules` lists them)"
        )
