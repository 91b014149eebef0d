"""A pipeline schedule: for each rank, its operations in order. It is data, to be printed, proven, timed and run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from poise.core.errors import ScheduleError
from poise.pipeline.op import COMPUTE, Kind, Op

if TYPE_CHECKING:
    from poise.pipeline.check import Proof


@dataclass(frozen=True)
class Schedule:
    """Operations of every rank in the order in which the rank runs them.

    Which rank has a stage is told by the operations themselves, for each microbatch: the rank of a microbatch's forward
    is its home. So a rank may have several stages, in any placement, and a stage may have copies on several ranks that
    share the microbatches (bidirectional schedules). `skipped` are the pairs (stage, microbatch) that are left out on
    purpose; the microbatch passes from the stage before to the one after. Durations are no part of a schedule.
    """

    ranks: tuple[tuple[Op, ...], ...]
    stages: int
    microbatches: int
    name: str = ""
    skipped: frozenset[tuple[int, int]] = frozenset()

    @classmethod
    def of(cls, ranks: Iterable[Iterable[Op]], name: str = "") -> Schedule:
        """The schedule of these operations, with as many stages and microbatches as they speak of."""
        rows = tuple(tuple(rank) for rank in ranks)
        ops = [op for row in rows for op in row]
        if not ops:
            raise ScheduleError("a schedule without operations; give each rank at least one, as in 0F0 0B0")
        stages = 1 + max(op.stage for op in ops)
        microbatches = 1 + max((op.microbatch for op in ops if op.microbatch is not None), default=0)
        return cls(rows, stages, microbatches, name)

    @cached_property
    def communicates(self) -> bool:
        """Whether sends and receives are written out."""
        return any(op.kind not in COMPUTE for row in self.ranks for op in row)

    @cached_property
    def homes(self) -> tuple[tuple[int, ...], ...]:
        """For each stage the ranks that have a copy of it, ascending."""
        found: list[set[int]] = [set() for _ in range(self.stages)]
        for rank, row in enumerate(self.ranks):
            for op in row:
                if op.kind is Kind.F and op.stage < self.stages:
                    found[op.stage].add(rank)
        return tuple(tuple(sorted(each)) for each in found)

    @property
    def chunk(self) -> Fraction:
        """The part of a full stage that one stage of this schedule is: 1 / chunks per rank, of one copy."""
        return Fraction(len(self.ranks), self.stages)

    def compute(self) -> Schedule:
        """The same schedule without communications, which follow from it."""
        if not self.communicates:
            return self
        return replace(self, ranks=tuple(tuple(op for op in row if op.kind in COMPUTE) for row in self.ranks))

    def check(self, memory_limit: Fraction | float | None = None) -> Proof:
        """Prove that the schedule runs and trains right; ScheduleError with rank, slot, rule and cure if not."""
        from poise.pipeline.check import check

        return check(self, memory_limit=memory_limit)

    def __str__(self) -> str:
        return "\n".join(" ".join(map(str, row)) for row in self.ranks)
