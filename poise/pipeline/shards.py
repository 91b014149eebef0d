"""List scheduling of 1F1B whose ranks also work on their shards of the output layer."""

from __future__ import annotations

from heapq import heappop, heappush

from poise.core.errors import ScheduleError
from poise.pipeline.costs import Costs
from poise.pipeline.memory import Limit, per_rank
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule

EARLY = (Kind.T, Kind.S, Kind.F, Kind.B)
"""Operations that all ranks wait for come first. Forwards before backwards: live activations bound them."""

LATE = (Kind.S, Kind.F, Kind.B, Kind.T)
"""With one barrier no rank waits for T, which fills the gaps."""


def most_alive(name: str, stages: int, barriers: int, alive: int | None, memory_limit: Limit | None) -> int:
    """Microbatches that rank 0 may hold: `alive`, p + `barriers` by default, or what the limit of each rank allows.

    Each later rank holds one less. ScheduleError for less than one on the last.
    """
    most = stages + barriers if alive is None else alive
    if memory_limit is not None:
        most = min(most, *(int(limit) + rank for rank, limit in enumerate(per_rank(memory_limit, stages))))
    if most < stages:
        raise ScheduleError(f"{name}: alive {most} is less than the {stages} stages; give or allow at least {stages}")
    return most


class Sharded:
    """1F1B with passes S and T in between: a rank that is free takes the first ready one in `order`.

    Rank r holds at most `most` − r microbatches: the barriers delay the first backward, which more forwards bridge. The
    last rank begins no backward before `ahead` more forwards, as far as it may hold them. Microbatches keep their order
    in all four kinds on every rank. Simulated at `costs`; times are in ticks.
    """

    def __init__(
        self, stages: int, microbatches: int, costs: Costs, *, barriers: int, most: int,
        order: tuple[Kind, ...] = EARLY, ahead: int = 0,
    ) -> None:  # fmt: skip
        self.stages, self.microbatches, self.barriers, self.most = stages, microbatches, barriers, most
        self.order, self.ahead = order, min(ahead, most - stages)
        self.durations = costs.at(stages, stages, microbatches)
        self.table = self.durations.table() if self.durations.even else None
        self.rows: list[list[Op]] = [[] for _ in range(stages)]
        self.work = [0] * stages
        self.done = [dict.fromkeys(order, 0) for _ in range(stages)]
        self.there: list[dict[Kind, list[int]]] = [{kind: [] for kind in order} for _ in range(stages)]
        self.there[0][Kind.F] = [0] * microbatches
        self.left = {kind: [stages] * microbatches for kind in (Kind.S, Kind.T)}
        self.latest = {kind: [0] * microbatches for kind in (Kind.S, Kind.T)}
        self.free = [0] * stages
        self.events = [(0, 0)]
        while self.events:
            now, rank = heappop(self.events)
            if now >= self.free[rank]:
                self._decide(now, rank)

    @property
    def makespan(self) -> int:
        """When the last rank ends."""
        return max(self.free)

    @property
    def microbatch(self) -> int:
        """The work of one microbatch on the busiest rank, on average."""
        return max(self.work) // self.microbatches

    @property
    def least(self) -> int:
        """No order with two barriers ends earlier: a rank's work between its first forward and its last backward.

        0 where microbatches or ranks differ in speed.
        """
        found, way = 0, 0
        for rank, work in enumerate(self.work if self.table is not None else ()):
            found = max(found, way + work)
            if self.table is not None and rank + 1 < self.stages:
                way += self.table[Kind.F][rank] + self.table[Kind.B][rank] + 2 * self.durations.hop(rank, rank + 1)
        return found

    def schedule(self, name: str) -> Schedule:
        """The schedule itself."""
        return Schedule(tuple(map(tuple, self.rows)), self.stages, self.microbatches, name, barriers=self.barriers)

    def _decide(self, now: int, rank: int) -> None:
        """Start the first kind that is ready; else wake when the next one is."""
        done, there, wake = self.done[rank], self.there[rank], -1
        for kind in self.order:
            batch = done[kind]
            if batch == len(there[kind]) or self._held_back(rank, kind, batch):
                continue
            if there[kind][batch] <= now:
                self._start(now, rank, kind, batch)
                return
            wake = there[kind][batch] if wake < 0 else min(wake, there[kind][batch])
        if wake >= 0:
            heappush(self.events, (wake, rank))

    def _held_back(self, rank: int, kind: Kind, batch: int) -> bool:
        """Whether memory is full, or the last rank is to run another forward first."""
        done = self.done[rank]
        if kind is Kind.F:
            return batch - done[Kind.B] >= self.most - rank
        wanted = min(batch + 1 + self.ahead, self.microbatches)
        return kind is Kind.B and rank == self.stages - 1 and done[Kind.F] < wanted

    def _start(self, now: int, rank: int, kind: Kind, batch: int) -> None:
        stage = rank
        ticks = self.table[kind][stage] if self.table is not None else self.durations.of(kind, stage, batch, rank)
        end = now + ticks
        self.rows[rank].append(Op(stage, kind, batch))
        self.done[rank][kind] += 1
        self.free[rank] = end
        self.work[rank] += ticks
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
