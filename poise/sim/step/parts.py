"""A schedule whose stages are cut into parts: each pass of a stage is the passes of its parts, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from poise.core.errors import ScheduleError
from poise.pipeline import Schedule
from poise.pipeline.op import Kind, Op

_UP = frozenset({Kind.F, Kind.R})
_DOWN = frozenset({Kind.B, Kind.I, Kind.W})


def in_parts(schedule: Schedule, counts: Sequence[int]) -> Schedule:
    """The same with stage s as `counts[s]` stages on its rank: forwards in order of depth, backwards in reverse.

    ScheduleError for counts that do not fit, and for operations that are of whole stages (copies, vocabulary passes).
    """
    if len(counts) != schedule.stages or min(counts) < 1:
        raise ScheduleError(f"parts: {len(counts)} counts for {schedule.stages} stages; give 1 or more for each")
    first = [0, *accumulate(counts)]

    def parts(op: Op) -> list[Op]:
        own = range(first[op.stage], first[op.stage + 1])
        if op.kind not in _UP | _DOWN:
            raise ScheduleError(f"{op}: is of a whole stage, and cannot be cut into parts; take another schedule")
        return [op._replace(stage=each) for each in (own if op.kind in _UP else reversed(own))]

    return replace(
        schedule,
        ranks=tuple(tuple(each for op in row for each in parts(op)) for row in schedule.compute().ranks),
        stages=first[-1],
        paths=schedule.paths
        and tuple(tuple(each for s in path for each in range(first[s], first[s + 1])) for path in schedule.paths),
    )


def shared_out(whole: Sequence[int], counts: Sequence[int], head: int = 0) -> list[int]:
    """What each stage takes as evenly over its parts as whole numbers allow; `head`: of the last part alone."""
    found: list[int] = []
    for stage, (total, count) in enumerate(zip(whole, counts, strict=True)):
        own = head if stage == len(counts) - 1 else 0
        each, more = divmod(total - own, count)
        found += [each + (part < more) for part in range(count)]
    found[-1] += head
    return found
