"""List scheduling: a rank that is free takes the best operation that is ready, and never waits while there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScheduleError
from poise.pipeline.costs import Durations
from poise.pipeline.graph import Ints
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule

Route = Sequence[int]
"""The rank of each stage, for one microbatch."""

Order = Callable[[NDArray[np.bool_], Ints, Ints], tuple[Ints, ...]]
"""Columns (forward?, stage, microbatch) to sort keys, the most significant first; smaller keys come first."""

_CLASS = np.array([1, 0, 2, 0])
"""By kind: backwards before forwards before weight gradients."""

_F, _I, _W, _B = (int(kind) for kind in (Kind.F, Kind.I, Kind.W, Kind.B))


def deepest(forward: NDArray[np.bool_], stage: Ints, microbatch: Ints) -> tuple[Ints, ...]:
    """The one nearest to its end of the pipeline."""
    return np.where(forward, -stage, stage), microbatch


def freshest(forward: NDArray[np.bool_], stage: Ints, microbatch: Ints) -> tuple[Ints, ...]:
    """The one nearest to where it came from: all move abreast."""
    return np.where(forward, stage, -stage), microbatch


def oldest(forward: NDArray[np.bool_], stage: Ints, microbatch: Ints) -> tuple[Ints, ...]:
    """The oldest microbatch, and of one microbatch the one nearest to its end."""
    return microbatch, np.where(forward, -stage, stage)


def greedy(
    routes: Sequence[Route], durations: Durations, *, ranks: int, split: bool, first: Order = deepest,
    alive: int | None = None, most: int | None = None, name: str = "",
) -> Schedule:  # fmt: skip
    """The schedule that list scheduling makes of microbatches with these routes.

    Backwards go before forwards, those before weight gradients; `first` orders each of them. `split` runs input and
    weight gradients apart. `alive` bounds how many microbatches of one direction (that enter at the same rank) a rank
    holds anything of; later ones wait, in order, so the oldest can always go on. `most` bounds how many activations of
    stages a rank holds; where that leaves none for the oldest to go on, ScheduleError. Linear but for the sorting.
    """
    if min(1 if alive is None else alive, 1 if most is None else most) < 1:
        raise ScheduleError(f"{name}: no microbatch may be alive; allow at least one")
    bounds = alive or len(routes), most or len(routes) * len(routes[0])
    return _Greedy(routes, durations, ranks, split, first, bounds).run(name)


class _Greedy:
    """The state of one list scheduling. Operations are their places in the order of preference."""

    def __init__(
        self, routes: Sequence[Route], durations: Durations, ranks: int, split: bool, first: Order,
        bounds: tuple[int, int],
    ) -> None:  # fmt: skip
        self.routes, self.durations = routes, durations
        self.alive, self.most = bounds
        self.stages, self.count = len(routes[0]), len(routes)
        self.back = _I if split else _B
        self.kinds = (_F, self.back, _W) if split else (_F, self.back)
        self.ops, self.place = self._sorted(first)
        self.rows: list[list[int]] = [[] for _ in range(ranks)]
        self.ready: list[list[int]] = [[] for _ in range(ranks)]
        self.refused: list[list[int]] = [[] for _ in range(ranks)]
        self.free = [0] * ranks
        self.times: list[int] = []
        self.arrivals: dict[int, list[tuple[int, int]]] = {}
        self.enters = [route[0] for route in routes]
        self.held: list[dict[int, dict[int, int]]] = [{at: {} for at in set(self.enters)} for _ in range(ranks)]
        self.live = [0] * ranks
        self.hops = [[durations.hop(here, there) for there in range(ranks)] for here in range(ranks)]
        self.table = durations.table() if durations.even else None

    def _sorted(self, first: Order) -> tuple[list[tuple[int, int, int]], list[list[list[int]]]]:
        """All operations (stage, kind, microbatch) in order of preference; places by kind, stage and microbatch."""
        size = self.stages * self.count
        kind = np.repeat(self.kinds, size)
        stage = np.tile(np.repeat(np.arange(self.stages), self.count), len(self.kinds))
        batch = np.tile(np.arange(self.count), len(self.kinds) * self.stages)
        order = np.lexsort((*reversed(first(kind == _F, stage, batch)), _CLASS[kind]))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        ops = list(zip(stage[order].tolist(), kind[order].tolist(), batch[order].tolist(), strict=True))
        places: list[list[list[int]]] = [[] for _ in range(_B + 1)]
        for each, row in zip(self.kinds, place.reshape(len(self.kinds), self.stages, self.count), strict=True):
            places[each] = row.tolist()
        return ops, places

    def run(self, name: str) -> Schedule:
        """Deliver what has arrived by an instant, then let every rank that this concerns choose."""
        for batch, route in enumerate(self.routes):
            self._deliver(0, route[0], self.place[_F][0][batch])
        times, ready, free = self.times, self.ready, self.free
        while times:
            now = heappop(times)
            touched = set()
            for rank, place in self.arrivals.pop(now):
                if place >= 0:
                    heappush(ready[rank], place)
                touched.add(rank)
            for rank in touched:
                if free[rank] <= now and ready[rank]:
                    self._choose(now, rank)
        if any(self.refused):
            raise ScheduleError(f"{name}: {self.most} activations per rank leave no room to go on; allow more")
        kinds = list(Kind)
        ops = [Op(stage, kinds[kind], batch) for stage, kind, batch in self.ops]
        rows = tuple(tuple(map(ops.__getitem__, row)) for row in self.rows)
        return Schedule(rows, self.stages, self.count, name)

    def _deliver(self, at: int, rank: int, place: int) -> None:
        """`place` is ready on `rank` at this instant; −1 only wakes the rank."""
        bucket = self.arrivals.get(at)
        if bucket is None:
            self.arrivals[at] = [(rank, place)]
            heappush(self.times, at)
        else:
            bucket.append((rank, place))

    def _choose(self, now: int, rank: int) -> None:
        """Start the best ready operation that memory allows."""
        ready, held = self.ready[rank], self.held[rank]
        while ready:
            place = heappop(ready)
            stage, kind, batch = self.ops[place]
            own = held[self.enters[batch]]
            if kind == _F and (self.live[rank] >= self.most or (batch not in own and len(own) >= self.alive)):
                self.refused[rank].append(place)
                continue
            self.rows[rank].append(place)
            self._start(now, rank, stage, kind, batch, own)
            break

    def _start(self, now: int, rank: int, stage: int, kind: int, batch: int, held: dict[int, int]) -> None:
        table, back, place = self.table, self.back, self.place
        end = now + (table[kind][stage] if table is not None else self.durations.of(kind, stage, batch, rank))
        self.free[rank] = end
        route, follows = self.routes[batch], -1
        if kind == _F:
            self.live[rank] += 1
            if batch not in held:
                held[batch] = route.count(rank)
            if stage + 1 < self.stages:
                there = route[stage + 1]
                self._deliver(end + self.hops[rank][there], there, place[_F][stage + 1][batch])
            else:
                follows = place[back][stage][batch]
        elif kind == back:
            if stage:
                there = route[stage - 1]
                self._deliver(end + self.hops[rank][there], there, place[back][stage - 1][batch])
            if kind == _I:
                follows = place[_W][stage][batch]
        self._deliver(end, rank, follows)
        if kind in (_W, _B):
            self._release(rank, batch, held)

    def _release(self, rank: int, batch: int, held: dict[int, int]) -> None:
        """A chunk is done with a microbatch; with the last chunk it leaves the rank. Others may come."""
        self.live[rank] -= 1
        held[batch] -= 1
        if not held[batch]:
            del held[batch]
        for place in self.refused[rank]:
            heappush(self.ready[rank], place)
        self.refused[rank].clear()
