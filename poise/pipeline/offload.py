"""Positions of copies to the host and back in a schedule (Wan et al., "PipeOffload", ICML 2025, section 3)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from poise.pipeline.costs import Costs
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule
from poise.pipeline.time import Timing, time

_TRIPS = 3
"""Activations kept for fewer round trips than this are not worth a copy."""


class Residency(NamedTuple):
    """One (stage, microbatch) on its rank, from the end of its forward to the start of its backward, in ticks."""

    start: int
    end: int
    stage: int
    microbatch: int


class RoundTrip(NamedTuple):
    """When a copy to the host has ended and when the one back begins."""

    away: int
    back: int
    life: Residency


def offload(schedule: Schedule, costs: Costs, part: Fraction) -> Schedule:
    """`schedule` with copies of the longest lived `part` of each rank's stages, placed by its own times.

    Copies have slots: of a round trip, first to the host and then back, where the link is shared, else of the longer of
    the two. Each forward in order gets the earliest slot to the host, each backward from the last on the latest slot
    back. A pair that lives for less than three round trips, or finds no slots within its life, stays.
    """
    timing = time(schedule, costs)
    durations = costs.at(len(schedule.ranks), schedule.stages, schedule.microbatches)
    rows = []
    for rank, lives in enumerate(_lives(timing)):
        chosen = _longest(lives, part)
        away = max((durations.of(Kind.OFFLOAD, stage, 0, rank) for stage in chosen), default=0)
        back = max((durations.of(Kind.RELOAD, stage, 0, rank) for stage in chosen), default=0)
        long = [life for life in lives if life.stage in chosen and life.end - life.start >= _TRIPS * (away + back)]
        slot = away + back if durations.shared_copy else max(away, back)
        rows.append(_placed(timing, rank, _trips(long, away, back, slot)))
    return replace(schedule, ranks=tuple(rows))


def _lives(timing: Timing) -> list[list[Residency]]:
    """The lives on each rank, by their start."""
    graph, count = timing.graph, timing.graph.schedule.microbatches
    found: list[list[Residency]] = [[] for _ in graph.schedule.ranks]
    for pair, (forward, gradient) in enumerate(zip(graph.forward.tolist(), graph.gradient.tolist(), strict=True)):
        if forward >= 0:
            life = Residency(timing.ends[forward], timing.starts[gradient], *divmod(pair, count))
            found[graph.rank[forward]].append(life)
    return [sorted(lives) for lives in found]


def _longest(lives: list[Residency], part: Fraction) -> set[int]:
    """The `part` of the stages of a rank that live longest: what they hold is in proportion to that."""
    total: dict[int, int] = defaultdict(int)
    for life in lives:
        total[life.stage] += life.end - life.start
    return set(sorted(total, key=lambda stage: (-total[stage], stage))[: int(len(total) * part)])


def _trips(lives: list[Residency], away: int, back: int, size: int) -> list[RoundTrip]:
    """A slot each way for those lives that find them; copies of no time need none."""
    if not size:
        return [RoundTrip(life.start, life.end, life) for life in lives]
    gone: list[tuple[int, Residency]] = []
    free = 0
    for life in lives:
        slot = max(free, -(-life.start // size))
        if slot * size + away + back <= life.end:
            gone.append((slot * size + away, life))
            free = slot + 1
    found: list[RoundTrip] = []
    least = 1 << 62
    for ended, life in sorted(gone, key=lambda each: -each[1].end):
        slot = min(least, life.end // size)
        if slot * size - back >= ended:
            found.append(RoundTrip(ended, slot * size - back, life))
            least = slot - 1
    return found


def _placed(timing: Timing, rank: int, trips: list[RoundTrip]) -> tuple[Op, ...]:
    """The rank's operations with the copies: an offload after its end, a reload before its begin."""
    graph = timing.graph
    low, high = graph.first[rank], graph.first[rank + 1]
    starts = timing.starts[low:high]
    gone: dict[int, list[Op]] = {}
    come: dict[int, list[Op]] = {}
    for away, back, life in trips:
        place = bisect_left(starts, away)
        gone.setdefault(place, []).append(Op(life.stage, Kind.OFFLOAD, life.microbatch))
        place = max(place, bisect_right(starts, back) - 1)
        come.setdefault(place, []).append(Op(life.stage, Kind.RELOAD, life.microbatch))
    row: list[Op] = []
    for place, op in enumerate(graph.schedule.ranks[rank]):
        row += gone.get(place, ())
        row += come.get(place, ())
        row.append(op)
    return tuple(row)
