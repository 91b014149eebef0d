"""Pipeline scheduling as a problem: the rank of each stage, the durations of operations, and what ranks may hold."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm

import numpy as np

from poise.core.errors import ScheduleError
from poise.pipeline.constraint_graph import ConstraintGraph
from poise.pipeline.costs import Costs, Durations
from poise.pipeline.memory import Limit, per_rank
from poise.pipeline.op import Kind

PLACEMENTS = ("loop", "wave")
"""Rank r has stages r, p + r, …; or they go back and forth as a wave, of which two chunks are a V."""


@dataclass(frozen=True)
class SchedulingProblem:
    """The problem that a scheduler solves, in integers.

    `route` is the rank of each stage; times are ticks of the durations' `scale`. A forward takes `size` of its rank's
    room, in units of 1 / `unit` of a full-stage activation; the input gradient gives back all but `kept`, the weight
    gradient the rest.
    """

    ranks: int
    microbatches: int
    route: tuple[int, ...]
    durations: Durations
    size: int
    kept: int
    unit: int
    room: tuple[int, ...]
    placement: str = "wave"

    @property
    def stages(self) -> int:
        """How many chunks there are in all."""
        return len(self.route)

    def ticks(self, kind: int, stage: int, microbatch: int = 0) -> int:
        """How long an operation takes."""
        if self.even:
            return self._table[kind][stage]
        return self.durations.of(kind, stage, microbatch, self.route[stage])

    @cached_property
    def even(self) -> bool:
        """Whether all microbatches take the same time."""
        return len(set(self.durations.microbatch)) == 1

    @cached_property
    def _table(self) -> list[list[int]]:
        of, route = self.durations.of, self.route
        return [[of(kind, stage, 0, rank) for stage, rank in enumerate(route)] for kind in range(4)]

    @cached_property
    def hops(self) -> tuple[int, ...]:
        """Ticks of the message from each stage to the next, the same both ways."""
        return tuple(self.durations.hop(here, there) for here, there in zip(self.route, self.route[1:], strict=False))

    @cached_property
    def at(self) -> tuple[tuple[int, ...], ...]:
        """The stages of each rank, ascending."""
        found: list[list[int]] = [[] for _ in range(self.ranks)]
        for stage, rank in enumerate(self.route):
            found[rank].append(stage)
        return tuple(map(tuple, found))

    @cached_property
    def work(self) -> list[int]:
        """Ticks of all operations of each rank."""
        return [
            sum(self.ticks(kind, stage, batch) for kind in range(3) for stage in stages for batch in self.batches)
            if not self.even
            else sum(self.ticks(Kind.B, stage) + self.ticks(Kind.F, stage) for stage in stages) * self.microbatches
            for stages in self.at
        ]

    @cached_property
    def net(self) -> ConstraintGraph:
        """Its operations by number."""
        homes = np.repeat(np.array(self.route)[:, None], self.microbatches, axis=1)
        return ConstraintGraph(self.durations, homes, self.size, self.kept, self.room)

    @property
    def batches(self) -> range:
        """The microbatches."""
        return range(self.microbatches)


def problem(
    name: str, ranks: int, microbatches: int, *, costs: Costs | None = None, limit: Limit | None = None,
    chunks: int = 1, placement: str = "wave", kept: Fraction | float = 1,
) -> SchedulingProblem:  # fmt: skip
    """The scheduling problem of a placement with `chunks` chunks per rank; errors name the schedule `name`.

    Without a `limit` a rank may hold every microbatch of all its chunks. A limit below one activation of each chunk of
    a rank is refused: no microbatch could pass.
    """
    if placement not in PLACEMENTS:
        raise ScheduleError(f"{name}: placement {placement!r}; give {' or '.join(PLACEMENTS)}")
    part = Fraction(str(kept)) if isinstance(kept, float) else Fraction(kept)
    if not 0 <= part <= 1:
        raise ScheduleError(f"{name}: kept {float(part):g}; it is the part of an activation, from 0 to 1")
    durations = (costs or Costs()).at(ranks, ranks * chunks, microbatches)
    route = tuple(
        stage % ranks if placement == "loop" or stage // ranks % 2 == 0 else ranks - 1 - stage % ranks
        for stage in range(ranks * chunks)
    )
    unit = lcm(chunks, chunks * part.denominator)
    size = unit // chunks
    if limit is None:
        room = (microbatches * unit,) * ranks
    else:
        limits = per_rank(limit, ranks)
        room = tuple(min(int(each * unit), microbatches * unit) for each in limits)
    for rank, each in enumerate(room):
        if each < size * chunks:
            raise ScheduleError(
                f"{name}: memory limit {float(limits[rank]):g} on rank {rank} leaves no room for one microbatch; "
                f"{chunks} chunk{'s' if chunks > 1 else ''} of it need 1: give 1 or more"
            )
    return SchedulingProblem(ranks, microbatches, route, durations, size, int(size * part), unit, room, placement)
