"""The operations of a placement by number, with what each takes and waits for, whatever the order on the ranks.

Schedules of one placement differ only in the order of the same operations. What follows from the placement is computed
once, and a schedule is a list of numbers for each rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScheduleError
from poise.pipeline.costs import Durations
from poise.pipeline.graph import Ints, columns
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule

KINDS = (Kind.F, Kind.I, Kind.W)


class Rows(NamedTuple):
    """A schedule as numbers: (kind · stages + stage) · microbatches + microbatch, rank after rank in order."""

    name: str
    ranks: tuple[Ints, ...]


class Direction(NamedTuple):
    """A constraint graph in one direction of time, as lists by operation: durations, predecessors and successors.

    An operation waits for `prior` on its own rank and for `need`, whose result is there `lag` ticks after its end;
    `follows` and `user` are the other ends of these, `away` the lag to the user. `change` is what it takes of its
    rank's `room`, when it starts, or gives back (negative), when it ends.
    """

    rank: list[int]
    ticks: list[int]
    change: list[int]
    prior: list[int]
    follows: list[int]
    need: list[int]
    lag: list[int]
    user: list[int]
    away: list[int]
    room: Sequence[int]


@dataclass(frozen=True, eq=False)
class ConstraintGraph:
    """The operations of `stages` and `count` microbatches; (stage, microbatch) runs on the rank `homes[stage, batch]`.

    A forward takes `size` of its rank's `room` when it starts; the input gradient gives back all but `kept` when it
    ends, the weight gradient the rest. Times are ticks. Lists are indexed by operation; −1 means none.
    """

    durations: Durations
    homes: Ints
    size: int
    kept: int
    room: Sequence[int]

    @property
    def stages(self) -> int:
        """How many there are."""
        return len(self.homes)

    @property
    def count(self) -> int:
        """How many microbatches there are."""
        return int(self.homes.shape[1])

    @property
    def changes(self) -> Ints:
        """What forward, input gradient and weight gradient take of the room."""
        return np.array([self.size, self.kept - self.size, -self.kept])

    @cached_property
    def ticks(self) -> list[int]:
        """How long each takes."""
        if self.durations.even:
            table = self.durations.table()
            return [each for kind in KINDS for each in table[kind][: self.stages] for _ in range(self.count)]
        of, homes = self.durations.of, self.homes.tolist()
        return [
            of(kind, stage, batch, home) for kind in KINDS for stage, row in enumerate(homes)
            for batch, home in enumerate(row)
        ]  # fmt: skip

    @cached_property
    def need(self) -> list[int]:
        """What each waits for of the neighbouring stage."""
        pairs, count = self.homes.size, self.count
        down, none = list(range(pairs - count)), [-1] * count
        return none + down + list(range(pairs + count, 2 * pairs)) + none + [-1] * pairs

    @cached_property
    def lag(self) -> list[int]:
        """How long the result that each needs is under way."""
        before, after, none = self.homes[:-1], self.homes[1:], [0] * self.count
        return none + self._hops(after, before) + self._hops(before, after) + none + [0] * self.homes.size

    @cached_property
    def ahead(self) -> Direction:
        """Forward in time."""
        pairs, count = self.homes.size, self.count
        none, lags = [0] * count, self.lag
        edge, last = [-1] * count, [-1] * pairs
        user = [*range(count, pairs), *edge, *edge, *range(pairs, 2 * pairs - count), *last]
        away = lags[count:pairs] + none + none + lags[pairs : 2 * pairs - count] + [0] * pairs
        return Direction(
            np.tile(self.homes.ravel(), 3).tolist(), self.ticks, np.repeat(self.changes, pairs).tolist(),
            last + list(range(2 * pairs)), [*range(pairs, 3 * pairs), *last], self.need, lags, user, away, self.room,
        )  # fmt: skip

    @cached_property
    def back(self) -> Direction:
        """With time running backwards."""
        way = self.ahead
        return Direction(
            way.rank, way.ticks, [-each for each in way.change], way.follows, way.prior, way.user, way.away, way.need,
            way.lag, way.room,
        )  # fmt: skip

    def _hops(self, here: Ints, there: Ints) -> list[int]:
        hop, known = self.durations.hop, {}
        ways = list(zip(here.ravel().tolist(), there.ravel().tolist(), strict=True))
        for way in set(ways):
            known[way] = hop(*way)
        return [known[way] for way in ways]

    def holds(self, rows: Rows) -> bool:
        """Whether the rows have every operation where this net has it."""
        homes = np.tile(self.homes.ravel(), 3)
        return all((homes[row] == rank).all() for rank, row in enumerate(rows.ranks))

    def fits(self, rows: Rows) -> bool:
        """Whether no rank ever holds more than its room."""
        changes, pairs = self.changes, self.homes.size
        levels = (int(changes[row // pairs].cumsum().max(initial=0)) for row in rows.ranks)
        return all(level <= room for level, room in zip(levels, self.room, strict=True))

    def schedule(self, rows: Rows) -> Schedule:
        """The schedule itself."""
        batches, stages = range(self.count), range(self.stages)
        ops = [Op(stage, kind, batch) for kind in KINDS for stage in stages for batch in batches]
        ranks = tuple(tuple(map(ops.__getitem__, row.tolist())) for row in rows.ranks)
        return Schedule(ranks, self.stages, self.count, rows.name)


def rows_of(schedule: Schedule) -> Rows:
    """A schedule's forwards and backwards, each backward in one piece taken apart: never slower."""
    ranks = []
    for ops in schedule.compute().ranks:
        stage, kind, batch = columns(list(ops))
        if kind.max(initial=0) > Kind.B:
            raise ScheduleError(f"{schedule.name}: has operations besides forwards and backwards; choose another")
        fused = kind == Kind.B
        times = 1 + fused
        kind, stage, batch = (np.repeat(each, times) for each in (np.where(fused, Kind.I, kind), stage, batch))
        kind[np.cumsum(times)[fused] - 1] = Kind.W
        ranks.append((kind * schedule.stages + stage) * schedule.microbatches + batch)
    return Rows(schedule.name, tuple(ranks))


def homes_of(rows: Rows, stages: int, count: int) -> NDArray[np.int64]:
    """The rank of each (stage, microbatch), for stages that have copies on several."""
    homes = np.full(stages * count, -1)
    for rank, row in enumerate(rows.ranks):
        homes[row[row < stages * count]] = rank
    return homes.reshape(stages, count)
