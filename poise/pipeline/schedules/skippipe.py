"""SkipPipe (Blagoev et al., 2025): every microbatch skips a part of the stages, on a path without conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

from poise.core.errors import ScheduleError
from poise.pipeline.along import along
from poise.pipeline.conflicts import Field, plan
from poise.pipeline.costs import Costs
from poise.pipeline.memory import Limit, per_rank
from poise.pipeline.schedule import Schedule


def skippipe(
    stages: int, microbatches: int, skip: Fraction | float | str = Fraction(1, 4), costs: Costs | None = None,
    replicas: Sequence[int] | None = None, alive: int | None = None, memory_limit: Limit | None = None,
) -> Schedule:  # fmt: skip
    """Each microbatch passes ⌈(1 − skip) stages⌉ of them: the first, the last, and every other one equally often.

    Neighbours on a path may be swapped where that is faster. Paths are planned at `costs` for as few microbatches as
    can share the stages out equally, and repeated (conflicts.py); then list scheduling lays forwards and backwards
    along them. `replicas` is how many of the ranks, `stages` in all, each stage has (default: one each;
    placement.py chooses which). At most `alive` microbatches of a first rank are on their way, which bounds the peak
    where there are no replicas: by default twice the stages of a path, since those that skip catch up with others and
    wait, or what the limit allows. With one rank each the first and last stage bound the makespan at
    3m + 3(path − 1) for T_F = T_B = T_W = 1.
    """
    part = _part(skip)
    counts = [1] * stages if replicas is None else list(replicas)
    if not counts or min(counts) < 1 or sum(counts) != stages:
        raise ScheduleError(
            f"skippipe: replicas {' '.join(map(str, counts))} have {sum(counts)} ranks of {stages}; give one number "
            "of 1 or more for each stage, with the ranks as their sum"
        )
    if alive is not None and alive < 1:
        raise ScheduleError(f"skippipe: alive {alive}; allow at least one microbatch")
    size = len(counts)
    homes = [list(range(sum(counts[:stage]), sum(counts[: stage + 1]))) for stage in range(size)]
    length = max(ceil(size * (1 - part)), min(size, 3))
    durations = (costs or Costs()).at(stages, size, microbatches)
    hops = [[durations.hop(here, there) for there in range(stages)] for here in range(stages)]
    planned = plan(Field(homes, durations.table()[0], hops, length, microbatches))
    ways = [[(visit.stage, visit.rank) for visit in planned[batch % len(planned)]] for batch in range(microbatches)]
    room = 2 * length
    if memory_limit is not None:
        room = max(1, min(room, *(int(limit * size / stages) for limit in per_rank(memory_limit, stages))))
    rows = along(ways, durations, stages, alive or room)
    paths = tuple(tuple(stage for stage, _ in way) for way in ways)
    return Schedule(tuple(map(tuple, rows)), size, microbatches, "skippipe", paths)


def _part(skip: Fraction | float | str) -> Fraction:
    """The part that is skipped, exactly: 0.25 is a quarter."""
    try:
        part = Fraction(str(skip))
    except (ValueError, ZeroDivisionError):
        part = Fraction(-1)
    if not 0 <= part < 1:
        raise ScheduleError(f"skippipe: skip {skip!r}; give the part of the stages to skip, from 0 to below 1")
    return part
