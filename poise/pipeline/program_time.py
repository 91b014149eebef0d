"""The durations of a lowered schedule's tasks from the costs of its operations."""

from __future__ import annotations

from poise.pipeline.costs import Costs
from poise.pipeline.op import COMPUTE, Kind
from poise.pipeline.schedule import Schedule
from poise.program import Program

_OPERATIONS = {kind.name: kind for kind in COMPUTE} | {"F_NO_GRAD": Kind.F}


def ticks_of(program: Program, schedule: Schedule, costs: Costs) -> tuple[list[int], list[int], int]:
    """Ticks of each task and lag of each receive, as `program.walk` takes them, and ticks to the unit of the costs.

    As in `time`, messages take time but occupy nothing.
    """
    durations = costs.at(len(schedule.ranks), schedule.stages, schedule.microbatches)
    ticks, lags = [0] * len(program.index.tasks), [0] * len(program.index.tasks)
    for number, task in enumerate(program.index.tasks):
        kind, arg = task.kind, task.arg
        if kind in _OPERATIONS:
            ticks[number] = durations.of(_OPERATIONS[kind], arg[0], arg[1], task.rank)
        elif kind == "recv":
            lags[number] = durations.hop(*task.group)
        elif kind == "broadcast":
            ticks[number] = durations.hop(arg[0], task.rank)
        elif kind == "all_reduce" and task.lane.startswith("sum"):
            ticks[number] = durations.barrier
        elif kind == "copy" and arg is not None:
            ticks[number] = durations.of(Kind[arg[0]], arg[1], arg[2], task.rank)
    return ticks, lags, durations.scale
