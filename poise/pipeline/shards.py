"""List scheduling of 1F1B whose ranks also work on their shards of the output layer."""

from __future__ import annotations

from heapq import heappop, heappush

from poise.core.errors import ScheduleError
from poise.pipeline.costs import Costs
from poise.pipeline.memory import Limit, per_rank
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule

_ORDER = (Kind.T, Kind.S, Kind.F, Kind.B)
"""Operations that all ranks wait for come first. Forwards before backwards: live activations bound them."""


def sharded(
    name: str, stages: int, microbatches: int, barriers: int, costs: Costs | None, alive: int | None,
    memory_limit: Limit | None,
) -> Schedule:  # fmt: skip
    """1F1B with passes S and T in between: a rank that is free takes the first ready one of T, S, F and B.

    Rank r holds at most `alive` − r microbatches (default p + `barriers`, or what the limit allows): the barriers delay
    the first backward, which more forwards bridge. The order is made for `costs` (default: T_F = T_B = T_W = 1,
    passes of no time).
    """
    most = stages + barriers if alive is None else alive
    if memory_limit is not None:
        most = min(most, *(int(limit) + rank for rank, limit in enumerate(per_rank(memory_limit, stages))))
    if most < stages:
        raise ScheduleError(f"{name}: alive {most} is less than the {stages} stages; give or allow at least {stages}")
    run = _Run(stages, microbatches, barriers, costs or Costs(), most)
    return Schedule(tuple(map(tuple, run.rows)), stages, microbatches, name, barriers=barriers)


class _Run:
    """One run in simulated time. Microbatches keep their order in all of the four kinds on every rank."""

    def __init__(self, stages: int, microbatches: int, barriers: int, costs: Costs, most: int) -> None:
        self.stages, self.barriers, self.most = stages, barriers, most
        self.durations = costs.at(stages, stages, microbatches)
        self.table = self.durations.table() if self.durations.even else None
        self.rows: list[list[Op]] = [[] for _ in range(stages)]
        self.done = [dict.fromkeys(_ORDER, 0) for _ in range(stages)]
        self.there: list[dict[Kind, list[int]]] = [{kind: [] for kind in _ORDER} for _ in range(stages)]
        self.there[0][Kind.F] = [0] * microbatches
        self.left = {kind: [stages] * microbatches for kind in (Kind.S, Kind.T)}
        self.latest = {kind: [0] * microbatches for kind in (Kind.S, Kind.T)}
        self.free = [0] * stages
        self.events = [(0, 0)]
        while self.events:
            now, rank = heappop(self.events)
            if now >= self.free[rank]:
                self._decide(now, rank)

    def _decide(self, now: int, rank: int) -> None:
        """Start the first kind that is ready; else wake when the next one is."""
        done, there, wake = self.done[rank], self.there[rank], -1
        for kind in _ORDER:
            batch = done[kind]
            if batch == len(there[kind]) or (kind is Kind.F and batch - done[Kind.B] >= self.most - rank):
                continue
            if there[kind][batch] <= now:
                self._start(now, rank, kind, batch)
                return
            wake = there[kind][batch] if wake < 0 else min(wake, there[kind][batch])
        if wake >= 0:
            heappush(self.events, (wake, rank))

    def _start(self, now: int, rank: int, kind: Kind, batch: int) -> None:
        stage = rank
        ticks = self.table[kind][stage] if self.table is not None else self.durations.of(kind, stage, batch, rank)
        end = now + ticks
        self.rows[rank].append(Op(stage, kind, batch))
        self.done[rank][kind] += 1
        self.free[rank] = end
        heappush(self.events, (end, rank))
        last, hop = self.stages - 1, self.durations.hop
        if kind is Kind.F and rank < last:
            self._notify(now, rank + 1, Kind.F, end + hop(rank, rank + 1))
        elif kind is Kind.F:
            for each in range(self.stages):
                self._notify(now, each, Kind.S, end + hop(last, each))
        elif kind is Kind.B and rank:
            self._notify(now, rank - 1, Kind.B, end + hop(rank - 1, rank))
        elif kind in (Kind.S, Kind.T):
            self._join(now, kind, batch, end)

    def _join(self, now: int, kind: Kind, batch: int, end: int) -> None:
        """The barrier behind S or T, open when the last of all ranks has reached it."""
        self.left[kind][batch] -= 1
        self.latest[kind][batch] = max(end, self.latest[kind][batch])
        if self.left[kind][batch]:
            return
        at = self.latest[kind][batch] + self.durations.barrier
        if kind is Kind.S:
            for each in range(self.stages):
                self._notify(now, each, Kind.T, at)
        if (kind is Kind.T) == (self.barriers == 2):
            self._notify(now, self.stages - 1, Kind.B, at)

    def _notify(self, now: int, rank: int, kind: Kind, at: int) -> None:
        """A rank learns when what it needs for `kind` will be there."""
        self.there[rank][kind].append(at)
        heappush(self.events, (max(now, self.free[rank]), rank))
