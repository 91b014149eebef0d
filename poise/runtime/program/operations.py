"""The operation of a schedule that a task of its Program is."""

from __future__ import annotations

from poise.pipeline.op import COMPUTE, Kind, Op
from poise.pipeline.schedule import Schedule
from poise.program import Task
from poise.program.task import base, stem

_COMPUTE = {kind.name: kind for kind in COMPUTE} | {"F_NO_GRAD": Kind.F}


def op_of(schedule: Schedule, task: Task) -> Op | None:
    """The operation; None of sums, updates, and copies, which a schedule does not name."""
    if task.kind in _COMPUTE:
        return Op(task.arg[0], _COMPUTE[task.kind], task.arg[1])
    if task.kind in ("send", "recv"):
        return _message(schedule, task)
    if task.kind == "scale" and stem(task.reads[0]).startswith("dw"):
        return Op(int(stem(task.reads[0])[2:]), Kind.REDUCE_GRAD, None)
    if task.kind == "wait" and isinstance(task.arg, tuple):
        return Op(task.arg[0], Kind.RELOAD, task.arg[1])
    if task.kind == "copy" and task.arg is None:
        return Op(int(stem(task.writes[0]).removeprefix("full")), Kind.UNSHARD, None)
    if task.kind == "free" and task.arg is None:
        return Op(int(stem(task.reads[0]).removeprefix("full")), Kind.RESHARD, None)
    if task.kind == "free":
        return Op(task.arg[0], Kind.OFFLOAD, task.arg[1])
    return None


def _message(schedule: Schedule, task: Task) -> Op:
    """A send is named by the stage that sends, a receive by the stage that receives."""
    value = base((task.reads or task.writes)[0])
    made, batch = task.arg
    path = schedule.paths[batch] if schedule.paths is not None else range(schedule.stages)
    behind = path[path.index(made) + 1]
    if value.startswith("x"):
        return Op(made, Kind.SEND_F, batch) if task.kind == "send" else Op(behind, Kind.RECV_F, batch)
    return Op(behind, Kind.SEND_B, batch) if task.kind == "send" else Op(made, Kind.RECV_B, batch)
