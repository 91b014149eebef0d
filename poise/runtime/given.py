"""What a pipeline is given besides stages, held against what its schedule needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from torch import nn

from poise.core.errors import ScheduleError
from poise.pipeline.schedule import Schedule

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
"""From the weights of a stage."""


def world() -> dist.ProcessGroup:
    """All processes."""
    if not dist.is_initialized():
        raise ScheduleError("there is no process group; call torch.distributed.init_process_group, or use torchrun")
    found = dist.group.WORLD
    assert found is not None
    return found


def check_size(schedule: Schedule, size: int) -> None:
    """A process for each rank."""
    if len(schedule.ranks) != size:
        raise ScheduleError(
            f"the schedule has {len(schedule.ranks)} ranks, the process group {size}; start {len(schedule.ranks)} "
            "processes, or make the schedule for as many as there are"
        )


def check_given(
    schedule: Schedule, optimizer: MakeOptimizer | None, output: nn.Linear | None, data: dist.ProcessGroup | None
) -> None:  # fmt: skip
    """What some schedules need besides stages."""
    if schedule.updates != "flush":
        if optimizer is None:
            raise ScheduleError(f"updates {schedule.updates}: weights change behind every backward; give an optimizer")
        copied = next((stage for stage, homes in enumerate(schedule.homes) if len(homes) > 1), None)
        if data is not None:
            raise ScheduleError(
                f"updates {schedule.updates} with replicas: they would drift apart; choose updates flush"
            )
        if copied is not None:
            raise ScheduleError(
                f"updates {schedule.updates} with copies of stage {copied}: the copies would drift apart; choose a "
                "schedule without copies, or updates flush"
            )
    if schedule.barriers and output is None:
        raise ScheduleError("vocabulary passes need this rank's rows of the output layer; give them as output")
