"""The same schedule through `torch.distributed.pipelining`, where that can run it.

PyTorch's runtime (torch 2.13, distributed/pipelining/schedules.py, `_PipelineScheduleRuntime`) reads a schedule's file.
It has no recomputing, no copies to the host, no vocabulary passes, no paths, one home for each stage and weights that
change once a step; `poise.pipeline.csv` refuses such schedules by naming the operation.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

from poise.pipeline.csv import write_csv
from poise.pipeline.schedule import Schedule
from poise.runtime.given import Modules, check_size
from poise.runtime.stage import LossFn


class PyTorchPipeline:
    """The stages of this rank under a schedule that PyTorch runs. `stages` are this rank's by number, or all.

    Communications go with the schedule where they are written out; else PyTorch derives its own.
    """

    def __init__(
        self, schedule: Schedule, stages: Modules, loss_fn: LossFn, *,
        group: dist.ProcessGroup | None = None, device: torch.device | str = "cpu",
    ) -> None:  # fmt: skip
        schedule.check()
        text = write_csv(schedule, communications=schedule.communicates)
        rank = dist.get_rank(group)
        check_size(schedule, dist.get_world_size(group))
        self._own = [stage for stage, homes in enumerate(schedule.homes) if rank in homes]
        self._last = schedule.stages - 1
        made = [
            PipelineStage(stages[stage], stage, schedule.stages, torch.device(device), group=group)
            for stage in self._own
        ]
        make: Any = _PipelineScheduleRuntime
        self._runtime = make(made, n_microbatches=schedule.microbatches, loss_fn=loss_fn, scale_grads=True)
        with TemporaryDirectory() as folder:
            file = Path(folder) / "schedule.csv"
            file.write_text(text)
            self._runtime._load_csv(str(file), format="compute_comms" if schedule.communicates else "compute_only")

    def step(self, inputs: Tensor, target: Tensor) -> list[Tensor]:
        """Run it once; gradients are added to `.grad`. The losses of the microbatches on the last stage's rank."""
        losses: list[Tensor] = []
        ending: dict[str, Any] = {"target": target, "losses": losses} if self._last in self._own else {}
        self._runtime.step(*([inputs] if 0 in self._own else []), **ending)
        return losses
