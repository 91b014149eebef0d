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

_OPERATIONS = {kind.name: kind for kind in COMPUTE} | {"F_NO_GRAD": Kind.F}

TIMED = frozenset({*_OPERATIONS, "send", "recv", "free", "wait", "copy"})
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
    ticks, lags = [0] * len(program.index.tasks), [0] * len(program.index.tasks)
    for number, task in enumerate(program.index.tasks):
        try:
            ticks[number] = own[task.kind] if task.kind in own else factor * _ticks(task, durations)
            if task.kind == "recv":
                lags[number] = factor * durations.hop(*task.group)
        except (IndexError, KeyError, TypeError, ValueError):
            raise ProgramError(
                f"{program.index.place(number)} has an argument or group that no time is known for; give (stage, "
                f"sample), or the time of {task.kind} for all"
            ) from None
    return ticks, lags, scale


def _ticks(task: Task, durations: Durations) -> int:
    kind, arg = task.kind, task.arg
    if kind in _OPERATIONS:
        return durations.of(_OPERATIONS[kind], arg[0], arg[1], task.rank)
    if kind == "broadcast":
        return durations.hop(arg[0], task.rank)
    if kind == "all_reduce" and task.lane.startswith("sum"):
        return durations.barrier
    if kind == "copy" and arg is not None:
        return durations.of(Kind[arg[0]], arg[1], arg[2], task.rank)
    return 0
