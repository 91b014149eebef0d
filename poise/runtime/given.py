"""What a pipeline is given besides stages, held against what its schedule needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import nn

from poise.core.errors import ScheduleError
from poise.pipeline.schedule import Schedule

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
"""From the weights of a stage."""


Modules = Mapping[int, nn.Module] | Sequence[nn.Module]
"""By stage."""


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


def module_of(stages: Modules, stage: int, schedule: Schedule, rank: int) -> nn.Module:
    """The module of a stage that `rank` runs."""
    try:
        return stages[stage]
    except (IndexError, KeyError):
        own = [each for each, homes in enumerate(schedule.homes) if rank in homes]
        raise ScheduleError(
            f"stage {stage} has no module on rank {rank}, where {schedule.name or 'the schedule'} runs it; give one "
            f"for each of the stages {', '.join(map(str, own))}"
        ) from None


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


def check_tied(stages: Modules, output: nn.Linear | None = None) -> None:
    """No weight in two of the modules that this rank was given: each stage's gradient is summed and scaled by itself.

    A weight of stages that are given to different ranks alone, each built in its own process, is not seen.
    """
    parts = list(stages.items()) if isinstance(stages, Mapping) else list(enumerate(stages))
    named = [(f"stage {stage}", module) for stage, module in parts] + ([("the output layer", output)] if output else [])
    homes: dict[int, tuple[str, str]] = {}
    for where, module in named:
        for name, weight in module.named_parameters():
            for key in _identity(weight):
                first, known = homes.setdefault(key, (where, name))
                if first != where:
                    raise ScheduleError(
                        f"{first} and {where} share the weight {known} ({name}); a weight's gradient is that of one "
                        "stage, so give each stage a weight of its own, or keep both uses in one stage"
                    )


def _identity(weight: nn.Parameter) -> tuple[int, ...]:
    """What two names of one weight have in common: the object, or the place of its values."""
    place = 0 if weight.is_meta or not weight.numel() or hasattr(weight, "to_local") else weight.data_ptr()
    return (id(weight), -place) if place else (id(weight),)
