"""Gathers and scatters of sharded weights merged as long as they hide under computations: SimpleFSDP.

After Zhang et al., "SimpleFSDP: Simpler Fully Sharded Data Parallel with torch.compile" (2024, arXiv 2411.00284),
section 4: reordering, bucketing, and the greedy rule of auto-wrapping. `gathered` has done the reordering: a gather
begins where the run before it does, and nothing waits for a scatter before the optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

from poise.program.passes.buckets import joined
from poise.program.passes.gather import LANE as GATHER
from poise.program.passes.gather import WITH_WEIGHTS
from poise.program.passes.gradients import ADD
from poise.program.passes.gradients import LANE as SYNC
from poise.program.program import Builder, Program
from poise.program.task import Lane, Task

Seconds = Callable[[Task], float]
"""Of a computation, and of a gather or scatter by its `work`."""


class Run(NamedTuple):
    """What computes between a gather and its free: the first slot, that of the free, and the seconds between."""

    first: int
    last: int
    seconds: float


def wrapped(program: Program, seconds: Seconds, limit: float = inf) -> Program:
    """Merge gathers, and scatters, into the largest buckets that stay hidden.

    program: as `gathered`, and with gradients as `reduced` (`run`, `reduce_scatter`), makes it.  The first gather stays
    alone. From then on a bucket takes the next gather as long as it, together with the scatters under way, is no longer
    than the computations of the bucket before it, and as long as the whole weights of both are within `limit` (in the
    unit of the values' sizes); the weights of a stage are in a bucket once. It begins where the first run of the bucket
    before it does. Scatters are merged by the mirror image of the rule: the last one, behind which nothing computes,
    stays alone, and each bucket is no longer than the computations up to the end of the bucket behind it. (In the paper
    a bucket's scatters are merged like its gathers; the last one would then be seen whole.)
    """
    into = Builder.of(program)
    for rank in range(program.ranks):
        if Lane(rank, GATHER) in into.rows:
            _Rank(into, rank, seconds, limit).wrap()
    return into.build()


class _Rank:
    def __init__(self, into: Builder, rank: int, seconds: Seconds, limit: float) -> None:
        self.into, self.rank, self.seconds, self.limit = into, rank, seconds, limit
        self.gathers = into.rows[Lane(rank, GATHER)]
        self.row = into.rows[Lane(rank, "compute")]
        self.runs = [self._run(gather) for gather in self.gathers]
        self.scatters: list[list[Task]] = [[] for _ in self.runs]
        """Those behind each run."""
        writer = {name: slot for slot, task in enumerate(self.row) for name in task.writes}
        for task in into.rows.get(Lane(rank, SYNC), ()):
            slot = writer.get(task.reads[0], -1)
            self.scatters[max((at for at, run in enumerate(self.runs) if run.first <= slot), default=0)].append(task)

    def wrap(self) -> None:
        """Write the rank's lanes anew."""
        late = self._scattered()
        if late:
            self.into.rows[Lane(self.rank, SYNC)] = [late[run] for run in sorted(late)]
        found = self._gathered({run: self.seconds(task) for run, task in late.items()})
        self.into.rows[Lane(self.rank, GATHER)] = [joined(self.gathers[begin:end]) for begin, end in found]
        self._requests(found)

    def _run(self, gather: Task) -> Run:
        full = gather.writes[0]
        first = next(slot for slot, task in enumerate(self.row) if task.kind in WITH_WEIGHTS and full in task.reads)
        last = next(slot for slot, task in enumerate(self.row) if task.kind == "free" and full in task.reads)
        computing = (task for task in self.row[first:last] if task.kind in WITH_WEIGHTS | ADD)
        return Run(first, last, sum(map(self.seconds, computing)))

    def _scattered(self) -> dict[int, Task]:
        """Buckets of scatters by the last run of each, from the last one on."""
        found: dict[int, Task] = {}
        bucket: list[Task] = []
        last = behind = len(self.runs) - 1
        for run in reversed([run for run, row in enumerate(self.scatters) if row]):
            merged = [*self.scatters[run], *bucket]
            hidden = sum(each.seconds for each in self.runs[last + 1 : behind + 1])
            if bucket and self.seconds(joined(merged)) > hidden:
                found[last], behind = joined(bucket), last
                merged = [*self.scatters[run]]
            if len(merged) == len(self.scatters[run]):
                last = run
            bucket = merged
        return found | ({last: joined(bucket)} if bucket else {})

    def _gathered(self, late: Mapping[int, float]) -> list[tuple[int, int]]:
        """From which gather to which, end excluded, each bucket goes; `late`: seconds of scatters behind runs."""
        found = [(0, 1)]
        while found[-1][1] < len(self.gathers):
            first, begin = found[-1]
            time = sum(run.seconds for run in self.runs[first:begin])
            time -= sum(late.get(run, 0.0) for run in range(first - 1, begin - 1))
            end = begin + 1
            while end < len(self.gathers) and self._fits((first, begin), (begin, end + 1), time):
                end += 1
            found.append((begin, end))
        return found

    def _fits(self, computing: tuple[int, int], bucket: tuple[int, int], seconds: float) -> bool:
        size = self.into.values
        merged = self.gathers[slice(*bucket)]
        fulls = (task.writes[0] for task in (*self.gathers[slice(*computing)], *merged))
        whole = sum(size[name].bytes for name in fulls if name in size)
        once = len({task.arg for task in merged}) == len(merged)
        return once and whole <= self.limit and self.seconds(joined(merged)) <= seconds

    def _requests(self, found: Sequence[tuple[int, int]]) -> None:
        """Every bucket is asked for where the first run of the bucket before it begins."""
        asks = {task.writes[0]: task for task in self.row if task.kind == "wait" and task.writes}
        before: dict[int, list[Task]] = {}
        for computing, bucket in pairwise(found):
            slot = self.runs[computing[0]].first
            for gather in self.gathers[slice(*bucket)]:
                ask = asks.pop(gather.reads[0])
                before.setdefault(slot, []).append(ask._replace(reads=(ask.reads[0], *self.row[slot].reads)))
        moved = {each.writes[0] for row in before.values() for each in row}
        made: list[Task] = []
        for slot, task in enumerate(self.row):
            made += before.get(slot, ())
            if not (task.kind == "wait" and task.writes and task.writes[0] in moved):
                made.append(task)
        self.row[:] = made
