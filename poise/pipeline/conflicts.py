"""Paths of microbatches through some of the stages, found one by one (A*), then freed of conflicts with one another.

Conflict-based search after SkipPipe (Blagoev et al., 2025): every microbatch takes its fastest path over stages that
still need it, which are then its stages; where that puts too many on a rank, or two on a rank at a time, the plan
branches into ones that forbid it to either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import combinations, count
from math import gcd, lcm
from typing import Any, NamedTuple

MOST = 400
"""Plans that are looked at; then the one with the fewest conflicts is taken, in which some wait for each other."""

PLANNED = 60
"""Microbatches that are planned together at most, unless a fair share needs more; their paths are repeated."""


class Visit(NamedTuple):
    """A forward of a microbatch, in ticks."""

    stage: int
    rank: int
    start: int
    end: int


Path = tuple[Visit, ...]

_Trail = tuple[Any, Visit, int]
"""A path from its end: what came before, the last visit, how many there are."""

_Key = tuple[int, int, int, int]
"""When a path ends, how many others it meets, how many neighbours it swaps, how much its stages are used."""


@dataclass(frozen=True)
class Ban:
    """What one microbatch may not do: pass a stage, pass a rank, or be on a rank within some time; nor skip `must`."""

    stages: frozenset[int] = frozenset()
    must: frozenset[int] = frozenset()
    ranks: frozenset[int] = frozenset()
    times: frozenset[tuple[int, int, int]] = frozenset()


@dataclass(frozen=True)
class Plan:
    """A path for each microbatch, with its bans."""

    bans: tuple[Ban, ...]
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Field:
    """Where paths run: the ranks of each stage, forward ticks by stage, message ticks between ranks, stages to pass.

    `microbatches` is how many there are; no more are planned.
    """

    homes: Sequence[Sequence[int]]
    ticks: Sequence[int]
    hops: Sequence[Sequence[int]]
    length: int
    microbatches: int = PLANNED

    @cached_property
    def agents(self) -> int:
        """The least number of microbatches that can pass every inner stage equally often, and every rank of a stage.

        Where that is more than there are (or `PLANNED`), the ranks of a stage need not be equal.
        """
        inner, passed = len(self.homes) - 2, self.length - 2
        least = 1 if inner < 1 else inner // gcd(inner, passed)
        ends = lcm(len(self.homes[0]), len(self.homes[-1]))
        inners = lcm(*(len(home) for home in self.homes[1:-1]))
        each = 1 if inner < 1 else least * passed // inner
        wanted = lcm(ends, least * (inners // gcd(inners, each)))
        room = min(PLANNED, self.microbatches)
        return wanted if wanted <= room else least * max(1, room // least)

    def steps(self, top: int, passed: int) -> Iterator[tuple[int, ...]]:
        """The stages that may follow when all up to `top` are passed or skipped: one, or two neighbours swapped."""
        last, left = len(self.homes) - 1, self.length - passed
        if left == 1:
            yield (last,)
            return
        for stage in range(top + 1, last - left + 2):
            yield (stage,)
        for stage in range(top + 1, last - left + 2):
            if left > 2 and stage + 1 < last:
                yield stage + 1, stage

    def rest(self, top: int, rank: int, passed: int) -> int:
        """Ticks to the end of the path if nothing is in the way."""
        known = self._rest.get((top, rank, passed))
        if known is not None or passed == self.length:
            return known or 0
        found = []
        for step in self.steps(top, passed):
            at = {rank: 0}
            for stage in step:
                at = {
                    there: min(ticks + self.hops[here][there] for here, ticks in at.items()) + self.ticks[stage]
                    for there in self.homes[stage]
                }
            found += [ticks + self.rest(max(step), here, passed + len(step)) for here, ticks in at.items()]
        self._rest[top, rank, passed] = min(found)
        return min(found)

    @cached_property
    def _rest(self) -> dict[tuple[int, int, int], int]:
        return {}


def plan(field: Field, most: int = MOST) -> list[Path]:
    """Paths of `field.agents` microbatches, which enter one behind the other, in turn at each rank of stage 0."""
    best = start = _shared(field)
    numbers = count()
    queue = [(_weight(field, start), next(numbers), start)]
    seen = {start.bans}
    least = queue[0][0]
    while queue and least[0] and len(seen) < most:
        weight, _, now = heappop(queue)
        for agent, ban in next(_conflicts(field, now.paths)):
            child = _forbid(field, now, agent, ban)
            if child is None or child.bans in seen:
                continue
            seen.add(child.bans)
            weight = _weight(field, child)
            heappush(queue, (weight, next(numbers), child))
            if weight < least:
                best, least = child, weight
    return list(best.paths)


def _shared(field: Field) -> Plan:
    """Paths found one after the other, such that every inner stage is passed equally often; each keeps its stages.

    A stage or rank that is passed often enough is banned, and a stage that needs all remaining microbatches may not be
    skipped.
    """
    every = range(len(field.homes))
    share = field.agents * (field.length - 2) // max(1, len(every) - 2)
    need = dict.fromkeys(every[1:-1], share)
    visits = [need.get(stage, field.agents) for stage in every]
    room = {rank: -(-visits[stage] // len(home)) for stage, home in enumerate(field.homes) for rank in home}
    bans: list[Ban] = []
    paths: list[Path] = []
    for agent in range(field.agents):
        full = frozenset(stage for stage, left in need.items() if not left)
        must = frozenset(stage for stage, left in need.items() if left == field.agents - agent)
        taken = frozenset(rank for rank, left in room.items() if left <= 0)
        path = fastest(field, agent, Ban(full, must, taken), paths)
        assert path is not None, "there are as many stages left as this one has to pass"
        own = frozenset(visit.stage for visit in path)
        for visit in path:
            room[visit.rank] -= 1
            if visit.stage in need:
                need[visit.stage] -= 1
        bans.append(Ban(frozenset(every) - own, own))
        paths.append(path)
    return Plan(tuple(bans), tuple(paths))


def fastest(field: Field, agent: int, ban: Ban, others: Sequence[Path]) -> Path | None:
    """The earliest path that the ban leaves; of equal ones that which meets the others least; None if there is none.

    Arriving earlier is never worse, since a microbatch may wait, so each state is settled once.
    """
    sources = field.homes[0]
    source, begin = sources[agent % len(sources)], agent // len(sources) * field.ticks[0]
    begin = _free(ban, source, begin, field.ticks[0])
    first = Visit(0, source, begin, begin + field.ticks[0])
    used = Counter(visit.stage for path in others for visit in path)
    taken: dict[int, list[Visit]] = {}
    for path in others:
        for visit in path:
            taken.setdefault(visit.rank, []).append(visit)
    numbers = count()
    key = (first.end + field.rest(0, source, 1), 0, 0, 0)
    queue: list[tuple[_Key, int, int, _Trail]] = [(key, next(numbers), 0, (None, first, 1))]
    known: dict[tuple[int, int, int], _Key] = {}
    while queue:
        key, _, top, trail = heappop(queue)
        if trail[2] == field.length:
            return _visits(trail)
        if known.get((top, trail[1].rank, trail[2]), key) < key:
            continue
        for step in field.steps(top, trail[2]):
            high = max(step)
            if not ban.stages.isdisjoint(step) or any(top < stage < high and stage not in step for stage in ban.must):
                continue
            for longer, met in _over(field, trail, step, ban, taken):
                _, visit, passed = longer
                state = high, visit.rank, passed
                ends = visit.end + field.rest(*state)
                then = (ends, key[1] + met, key[2] + len(step) - 1, key[3] + sum(used[stage] for stage in step))
                if state not in known or then < known[state]:
                    known[state] = then
                    heappush(queue, (then, next(numbers), high, longer))
    return None


def _visits(trail: _Trail | None) -> Path:
    found = []
    while trail is not None:
        found.append(trail[1])
        trail = trail[0]
    return tuple(reversed(found))


def _over(
    field: Field, trail: _Trail, step: Sequence[int], ban: Ban, taken: dict[int, list[Visit]]
) -> list[tuple[_Trail, int]]:  # fmt: skip
    """`trail` with the stages of `step`, over each of their ranks, and how many others it meets there."""
    found = [(trail, 0)]
    for stage in step:
        longer = []
        for each, met in found:
            for rank in field.homes[stage]:
                if rank not in ban.ranks:
                    start = _free(ban, rank, each[1].end + field.hops[each[1].rank][rank], field.ticks[stage])
                    visit = Visit(stage, rank, start, start + field.ticks[stage])
                    meets = sum(other.start < visit.end and start < other.end for other in taken.get(rank, ()))
                    longer.append(((each, visit, each[2] + 1), met + meets))
        found = longer
    return found


def _free(ban: Ban, rank: int, at: int, ticks: int) -> int:
    """The earliest start from `at` on that keeps clear of the banned times."""
    if ban.times:
        for _, low, high in sorted(time for time in ban.times if time[0] == rank):
            if at < high and at + ticks > low:
                at = high
    return at


def _weight(field: Field, now: Plan) -> tuple[int, int]:
    """How many conflicts a plan has, and when its paths end."""
    return sum(1 for _ in _conflicts(field, now.paths)), sum(path[-1].end for path in now.paths)


def _conflicts(field: Field, paths: Sequence[Path]) -> Iterator[list[tuple[int, Ban]]]:
    """Each conflict as the bans of which one would end it: too many on a rank, two on a rank at a time."""
    by_rank: dict[int, list[tuple[Visit, int]]] = {}
    for agent, path in enumerate(paths):
        for visit in path:
            by_rank.setdefault(visit.rank, []).append((visit, agent))
    for rank, visits in by_rank.items():
        stage = visits[0][0].stage
        passed = sum(len(by_rank.get(home, ())) for home in field.homes[stage])
        share = -(-passed // len(field.homes[stage]))
        if stage:
            bans = [(agent, Ban(ranks=frozenset({rank}))) for _, agent in visits]
            yield from (bans for _ in visits[share:])
    for rank, visits in by_rank.items():
        for (one, a), (two, b) in combinations(visits, 2):
            if one.start < two.end and two.start < one.end:
                yield [
                    (a, Ban(times=frozenset({(rank, two.start, two.end)}))),
                    (b, Ban(times=frozenset({(rank, one.start, one.end)}))),
                ]


def _forbid(field: Field, now: Plan, agent: int, ban: Ban) -> Plan | None:
    """The plan with one more ban, for which that microbatch searches a new path; None if there is none."""
    old = now.bans[agent]
    more = replace(old, ranks=old.ranks | ban.ranks, times=old.times | ban.times)
    path = fastest(field, agent, more, [path for other, path in enumerate(now.paths) if other != agent])
    if path is None:
        return None
    bans, paths = list(now.bans), list(now.paths)
    bans[agent], paths[agent] = more, path
    return replace(now, bans=tuple(bans), paths=tuple(paths))
