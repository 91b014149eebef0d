"""What no schedule of a placement can beat: lower bounds on makespan and on the bubble within a span.

A rank is a machine; each of its operations has a head, before which it cannot start (the way of its microbatch to it),
and a tail, which is still to come when it has ended (its way back). Three relaxations, of which the largest counts:

one machine   all operations of a rank with their heads and tails, each of which may be interrupted: Jackson's
              preemptive schedule (Carlier and Pinson, Management Science, 1989) is optimal for that
warm-up       before the first gradient is back a rank can only run as many forwards as it has room for, and after its
              last forward only the gradients of as many microbatches (Qi et al., "Zero Bubble Pipeline Parallelism",
              ICLR 2024, appendix B, for rank 0 and its warm-up; here for each rank and both ends)
room          each microbatch takes its room for at least its way there and back: activations · time ≤ room · makespan

Microbatches that take the same time may be assumed to pass each stage in order, so the j-th waits for j before it.
"""

from __future__ import annotations

from fractions import Fraction
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.pipeline.op import Kind
from poise.pipeline.scheduling_problem import SchedulingProblem

F, I, W = Kind.F, Kind.I, Kind.W  # noqa: E741

Times = NDArray[Any]
"""By stage and place in the order of microbatches, in ticks; −1 where nothing follows."""

Jobs = tuple[Times, Times, Times]
"""Head, ticks and tail of the operations of a rank."""

MANY = 6000
"""Operations of a shop above which only some sets of a rank's are looked at: as true a bound, but it may be lower."""

_SETS = 8


def makespan(problem: SchedulingProblem) -> Fraction:
    """No schedule of this shop ends earlier, in the unit of the costs."""
    ways = _Ways(problem)
    tails = ways.tails(None)
    found = max(ways.least(rank, tails, problem.work[rank]) for rank in range(problem.ranks))
    return Fraction(found, problem.durations.scale)


def span_bubble(problem: SchedulingProblem) -> Fraction:
    """No schedule of this shop has a smaller largest (last end − first start − work) of a rank.

    A rank that starts later than it could moves all its heads by as much, so the earliest start is the one to count.
    """
    ways = _Ways(problem)
    found = 0
    for rank, stages in enumerate(problem.at):
        ends = ways.least(rank, ways.tails(rank), problem.work[rank])
        found = max(found, ends - int(ways.heads[F][stages[0], 0]) - problem.work[rank])
    return Fraction(found, problem.durations.scale)


class _Ways:
    """Heads, and tails to the end or to the end of one rank, of all operations of a shop, by kind."""

    def __init__(self, problem: SchedulingProblem) -> None:
        self.problem = problem
        self.exact = 3 * problem.stages * problem.microbatches <= MANY
        least = min(problem.batches, key=lambda batch: problem.durations.microbatch[batch])
        self.ticks = [[problem.ticks(kind, stage, least) for stage in range(problem.stages)] for kind in range(3)]
        self.longest = max(problem.durations.microbatch) / min(problem.durations.microbatch)
        small = sum(problem.work) + sum(problem.hops) < 1 << 60
        self.places = np.arange(problem.microbatches).astype(np.int64 if small else object)
        self.heads = self._heads()

    def _heads(self) -> list[Times]:
        forward, back, weight = self.ticks
        heads = [self._empty() for _ in range(3)]
        before = self.places * 0
        for stage, ticks in enumerate(forward):
            heads[F][stage] = self._queue(before, ticks)
            before = heads[F][stage] + ticks + self._hop(stage)
        for stage in reversed(range(len(forward))):
            heads[I][stage] = self._queue(before, back[stage])
            heads[W][stage] = self._queue(heads[I][stage] + back[stage], weight[stage])
            before = heads[I][stage] + back[stage] + self._hop(stage - 1)
        return heads

    def tails(self, rank: int | None) -> list[Times]:
        """From the end of each operation to the last end of all ranks, or of one."""
        forward, back, weight = self.ticks
        tails = [self._empty() for _ in range(3)]
        none = self.places * 0 - 1
        after = none
        for stage, ticks in enumerate(back):
            own = rank is None or self.problem.route[stage] == rank
            tails[W][stage] = self._queue(none + 1, weight[stage])[::-1] if own else none
            least = np.maximum(after, tails[W][stage] + weight[stage]) if own else after
            tails[I][stage] = self._queue(least[::-1], ticks)[::-1]
            after = np.where(tails[I][stage] >= 0, tails[I][stage] + ticks + self._hop(stage), -1)
        for stage in reversed(range(len(forward))):
            tails[F][stage] = self._queue(after[::-1], forward[stage])[::-1]
            after = tails[F][stage] + forward[stage] + self._hop(stage - 1)
        return tails

    def _empty(self) -> Times:
        return np.zeros((self.problem.stages, self.problem.microbatches), dtype=self.places.dtype)

    def _hop(self, stage: int) -> int:
        """From a stage to the next, 0 where there is none."""
        return self.problem.hops[stage] if 0 <= stage < self.problem.stages - 1 else 0

    def _queue(self, before: Times, ticks: int) -> Times:
        """One after the other where the microbatches are equal; else their order is unknown."""
        if not self.problem.even or before[0] < 0:
            return before
        found: Times = np.maximum.accumulate(before - self.places * ticks) + self.places * ticks
        return found

    def least(self, rank: int, tails: list[Times], work: int) -> int:
        """The largest of the three bounds."""
        return max(
            _one_machine(self._jobs(rank, tails), self.exact), self._warm_up(rank, tails, work), self._room(rank, tails)
        )

    def _jobs(self, rank: int, tails: list[Times]) -> Jobs:
        stages, count = list(self.problem.at[rank]), self.problem.microbatches
        ticks = np.repeat(np.array([self.ticks[kind][stage] for kind in range(3) for stage in stages]), count)
        heads, ends = (
            np.concatenate([times[kind][stages].ravel() for kind in range(3)]) for times in (self.heads, tails)
        )
        return heads, ticks, ends

    def _warm_up(self, rank: int, tails: list[Times], work: int) -> int:
        """Work of a rank that fits neither before its first gradient nor behind its last forward lies in between."""
        problem, stages = self.problem, list(self.problem.at[rank])
        begin, first = (int(self.heads[kind][stages, 0].min()) for kind in (F, I))
        last, end = (int(tails[kind][stages, -1].min()) for kind in (F, W))
        forwards = problem.room[rank] // problem.size * max(self.ticks[F][stage] for stage in stages)
        gradients = max(self._behind(rank, stage) for stage in stages)
        early, late = min(first - begin, int(forwards * self.longest)), min(last - end, int(gradients * self.longest))
        return first + last + work - early - late if work > early + late else 0

    def _behind(self, rank: int, stage: int) -> Fraction:
        """The most work of gradients of this stage that what fits into the room of a rank leaves to do."""
        problem, back, weight = self.problem, self.ticks[I][stage], self.ticks[W][stage]
        both = problem.room[rank] // problem.size * (back + weight)
        if problem.kept == problem.size or not weight:
            return Fraction(both)
        if not problem.kept:
            return Fraction(both + problem.microbatches * len(problem.at[rank]) * weight)
        return problem.room[rank] * max(Fraction(back + weight, problem.size), Fraction(weight, problem.kept))

    def _room(self, rank: int, tails: list[Times]) -> int:
        problem, stages = self.problem, list(self.problem.at[rank])
        taken = 0
        for stage in stages:
            back, weight = (self.ticks[kind][stage] for kind in (I, W))
            way = int(self.heads[I][stage, 0] - self.heads[F][stage, 0]) + back
            taken += (problem.size * way + problem.kept * weight) * problem.microbatches
        begin, end = int(self.heads[F][stages, 0].min()), int(tails[W][stages, -1].min())
        return begin - -taken // problem.room[rank] + end


def _one_machine(jobs: Jobs, exact: bool) -> int:
    """What the operations of a rank need with their heads and tails."""
    heads, ticks, tails = jobs
    if exact:
        return _preemptive(sorted(zip(heads.tolist(), ticks.tolist(), tails.tolist(), strict=True)))
    order = np.argsort(heads, kind="stable")
    heads, ticks, tails = heads[order], ticks[order], tails[order]
    found = 0
    for tail in np.unique(np.sort(tails)[:: -(-len(tails) // _SETS)]):
        some = tails >= tail
        rest = np.cumsum(ticks[some][::-1])[::-1]
        found = max(found, int((heads[some] + rest).max() + tail))
    return found


def _preemptive(jobs: list[tuple[int, int, int]]) -> int:
    """Jackson's preemptive schedule: of what has arrived, always that with the longest tail."""
    ready: list[tuple[int, int]] = []
    now = found = at = 0
    while at < len(jobs) or ready:
        if not ready:
            now = max(now, jobs[at][0])
        while at < len(jobs) and jobs[at][0] <= now:
            heappush(ready, (-jobs[at][2], jobs[at][1]))
            at += 1
        tail, left = heappop(ready)
        until = jobs[at][0] if at < len(jobs) else now + left
        if now + left <= until:
            now += left
            found = max(found, now - tail)
        else:
            heappush(ready, (tail, left - (until - now)))
            now = until
    return found
