"""The durations of a Program's tasks from the costs of operations."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import lcm

from poise.core.errors import ProgramError
from poise.pipeline.costs import Costs, Durations
from poise.pipeline.op import COMPUTE, Kind
from poise.pipeline.schedule import Schedule
from poise.program import Program, Task

OPERATIONS = {kind.name: kind for kind in COMPUTE} | {"F_NO_GRAD": Kind.F}
"""The operation whose costs a computation takes, by the task's kind."""

_NONE = frozenset({"send", "recv", "free", "wait"})

TIMED = frozenset({*OPERATIONS, *_NONE, "copy"})
"""Kinds that costs have a time for, or that take none."""

Times = Mapping[str, Fraction]


def ticks_of(program: Program, schedule: Schedule, costs: Costs) -> tuple[list[int], list[int], int]:
    """Ticks of each task and lag of each receive, as `program.walk` takes them, and ticks to the unit of the costs.

    As in `time`, messages take time but occupy nothing.
    """
    return ticks_by(program, costs.at(len(schedule.ranks), schedule.stages, schedule.microbatches), {})


def durations_of(program: Program, costs: Costs) -> Durations:
    """The costs at the size of a Program: its ranks, and the stages and samples of its paths."""
    stages = 1 + max((stage for path in program.paths for stage in path), default=0)
    return costs.at(program.ranks, stages, max(1, len(program.paths)))


def ticks_by(program: Program, durations: Durations, times: Times) -> tuple[list[int], list[int], int]:
    """The same from durations. `times`: of each task of some kinds, in place of the costs."""
    more = lcm(*(time.denominator for time in times.values()))
    scale = lcm(durations.scale, more)
    factor, own = scale // durations.scale, {kind: int(time * scale) for kind, time in times.items()}
    tasks = program.index.tasks
    ticks, lags = [0] * len(tasks), [0] * len(tasks)
    table = durations.table() if durations.even else None
    hops: dict[tuple[int, ...], int] = {}
    for number, task in enumerate(tasks):
        try:
            kind = task.kind
            if kind in own:
                ticks[number] = own[kind]
            elif table is not None and kind in OPERATIONS:
                ticks[number] = factor * table[OPERATIONS[kind]][task.arg[0]]
            elif kind not in _NONE:
                ticks[number] = factor * _ticks(task, durations)
            if kind == "recv":
                group = task.group
                if group not in hops:
                    hops[group] = factor * durations.hop(*group)
                lags[number] = hops[group]
        except (IndexError, KeyError, TypeError, ValueError):
            raise ProgramError(
                f"{program.index.place(number)} has an argument or group that no time is known for; give (stage, "
                f"sample), or the time of {task.kind} for all"
            ) from None
    return ticks, lags, scale


def _ticks(task: Task, durations: Durations) -> int:
    kind, arg = task.kind, task.arg
    if kind in OPERATIONS:
        return durations.of(OPERATIONS[kind], arg[0], arg[1], task.rank)
    if kind == "broadcast":
        return durations.hop(arg[0], task.rank)
    if kind == "all_reduce" and task.lane.startswith("sum"):
        return durations.barrier
    if kind == "copy" and arg is not None:
        return durations.of(Kind[arg[0]], arg[1], arg[2], task.rank)
    return 0
