"""A pipeline schedule: for each rank, its operations in order. It is data, to be printed, proven, timed and run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from poise.core.errors import ScheduleError
from poise.pipeline.op import COMMUNICATIONS, Kind, Op

if TYPE_CHECKING:
    from poise.pipeline.check import Proof
    from poise.pipeline.memory import Limit
    from poise.pipeline.versions import Versions

Path = tuple[int, ...]
"""The stages that a microbatch passes, in order."""


@dataclass(frozen=True)
class Schedule:
    """Operations of every rank in the order in which the rank runs them.

    The operations themselves determine which rank has a stage, for each microbatch: the rank of a microbatch's forward
    is its home. So a rank may have several stages, in any placement, and a stage may have copies on several ranks that
    share the microbatches (bidirectional schedules). Durations are no part of a schedule.
    """

    ranks: tuple[tuple[Op, ...], ...]
    stages: int
    microbatches: int
    name: str = ""
    paths: tuple[Path, ...] | None = None
    """For each microbatch the stages that it passes, from the first to the last; None: all, ascending."""
    barriers: int = 0
    """How often the shards of the vocabulary wait for each other per microbatch: 2 (behind S and behind T) or 1 (behind
    S); 0: there are none."""
    updates: str = "flush"
    """When weights change: "flush" once, behind all microbatches; else behind every backward, where a backward uses the
    weights of its forward ("stash"), those that the first stage had then ("vertical"), or the newest ("latest")."""

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
        return any(op.kind in COMMUNICATIONS for row in self.ranks for op in row)

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

    @cached_property
    def versions(self) -> Versions:
        """For each (stage, microbatch) whose weights its forward and backward use; ScheduleError if that is none."""
        from poise.pipeline.versions import versions

        return versions(self)

    def compute(self) -> Schedule:
        """The same schedule without communications, which follow from it."""
        if not self.communicates:
            return self
        return replace(
            self, ranks=tuple(tuple(op for op in row if op.kind not in COMMUNICATIONS) for row in self.ranks)
        )

    def check(self, memory_limit: Limit | None = None) -> Proof:
        """Prove that the schedule runs and trains right; ScheduleError with rank, slot, rule and cure if not."""
        from poise.pipeline.check import check

        return check(self, memory_limit=memory_limit)

    def __str__(self) -> str:
        return "\n".join(" ".join(map(str, row)) for row in self.ranks)
