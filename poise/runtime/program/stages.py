"""What the tasks of a training step do to the stages of a rank: forwards, backwards, sums, copies, messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

from poise.core.errors import ScheduleError
from poise.program import Task
from poise.program.task import stem
from poise.runtime import fsdp
from poise.runtime.program.handle import Handle, InThread, Payload
from poise.runtime.program.interpreter import NOT_YET, Kernel
from poise.runtime.program.output import OutputShard
from poise.runtime.program.transport import Transport
from poise.runtime.stage import Stage, gradients_of, own_part
from poise.runtime.ties import Ties

Reads = Sequence[Payload]
Made = Sequence[Payload] | Handle


class StageKernels:
    """The kernels of one rank, over its `stages` by number. `targets` are those of the microbatches, or None.

    What a stage keeps of a microbatch is in the stage, and so are its gradients; the values of these say when they are
    there.
    """

    def __init__(
        self, transport: Transport, stages: Mapping[int, Stage], shard: OutputShard | None = None,
        ties: Ties | None = None,
    ) -> None:  # fmt: skip
        self.transport, self.stages, self.shard = transport, stages, shard
        self.ties = ties or Ties((), {})
        self.targets: Sequence[Tensor | None] = ()
        self.shared: Sequence[Mapping[str, Tensor]] = ()
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._scattered: set[int] = set()
        """Stages whose sharded gradients have been reduced in this step."""
        self.table: dict[str, Kernel] = {
            "F": self._forward, "F_NO_GRAD": self._forward, "R": self._recompute, "B": self._backward,
            "I": self._backward, "W": self._weight, "S": self._softmax, "T": self._rest, "scale": self._scale,
            "update": self._update, "wait": self._reserve, "send": self._send, "recv": self._receive,
            "broadcast": self._broadcast, "all_reduce": self._sum, "copy": self._copy, "free": self._free,
        }  # fmt: skip

    def begin(self, targets: Sequence[Tensor | None], shared: Sequence[Mapping[str, Tensor]] = ()) -> None:
        """A step begins. `shared` are keyword inputs of all stages, by microbatch."""
        self.targets, self.shared = targets, shared
        self._scattered.clear()
        self.transport.begin()
        for stage in self.stages.values():
            fsdp.prepare(stage.module)
            stage.module.zero_grad(set_to_none=True)
            stage.losses.clear()
            if stage.versions is not None:
                stage.versions.begin()
        if self.shard is not None:
            self.shard.begin()

    def _forward(self, task: Task, reads: Reads) -> Made:
        number, microbatch = task.arg
        stage = self.stages[number]
        target = self.targets[microbatch] if stage.loss_fn is not None else None
        shared = self.shared[microbatch] if self.shared else {}
        outputs = stage.forward(microbatch, reads[0], target, keep=task.kind == "F", shared=shared)
        return (outputs, *[None] * (len(task.writes) - 1))

    def _recompute(self, task: Task, reads: Reads) -> Made:
        self.stages[task.arg[0]].recompute(task.arg[1])
        return (None,)

    def _backward(self, task: Task, reads: Reads) -> Made:
        number, microbatch = task.arg
        stage = self.stages[number]
        gradients: tuple[Tensor, ...] = reads[-1] if isinstance(reads[-1], tuple) else ()
        if self.shard is not None and stem(task.reads[-1]).startswith("sum"):
            stage.losses[microbatch], gradient = self.shard.result(microbatch, stage.open[microbatch].shapes[0].shape)
            gradients = (gradient,)
        run = stage.backward_input if task.kind == "I" else stage.backward

        def made() -> Sequence[Payload]:
            found = run(microbatch, gradients)
            gives = task.writes[0].startswith(f"g{number}.")
            return (found,) * gives + (None,) * (len(task.writes) - gives)

        return made() if task.lane == "compute" else self._beside(task.lane, made)

    def _weight(self, task: Task, reads: Reads) -> Made:
        self.stages[task.arg[0]].backward_weight(task.arg[1])
        return (None,) * len(task.writes)

    def _scale(self, task: Task, reads: Reads) -> Made:
        numerator, denominator = task.arg
        for gradient in self._gradients(task.reads[0]):
            gradient.mul_(numerator / denominator)
        return (None,)

    def _gradients(self, sum_: str) -> list[Tensor]:
        """The gradients that a sum of them stands for: `dw3#8@1` for those of stage 3."""
        name = stem(sum_)[1:]
        if name.startswith("out"):
            assert self.shard is not None
            return gradients_of(self.shard.layer)
        if name.startswith("tied"):
            number = int(name[4:])
            for stage in self.ties.stages(number):
                self._scatter(stage)
            return [own_part(self.ties.gradient(number))]
        return gradients_of(self._scatter(int(name[1:])), self.ties.all)

    def _scatter(self, number: int) -> nn.Module:
        """A stage's module, whose gradients are this rank's part of those of all data ranks if it is sharded."""
        module = self.stages[number].module
        if number not in self._scattered:
            self._scattered.add(number)
            fsdp.reduce(module)
        return module

    def _update(self, task: Task, reads: Reads) -> Made:
        """The optimizer runs behind the step; here the copies of a tied weight get their gradient."""
        name = stem(task.writes[0])
        if name.startswith("tied"):
            self.ties.spread(int(name[4:]))
        return (None,)

    def _send(self, task: Task, reads: Reads) -> Made:
        return self.transport.send(task, reads[0])

    def _receive(self, task: Task, reads: Reads) -> Made:
        found = self.transport.receive(task)
        return NOT_YET if found is None else found  # type: ignore[return-value]

    def _sum(self, task: Task, reads: Reads) -> Made:
        if task.lane.startswith("sum"):
            assert self.shard is not None
            return self.shard.summed(task)
        return self.transport.all_reduce(task, [each for name in task.reads for each in self._gradients(name)])

    def _broadcast(self, task: Task, reads: Reads) -> Made:
        return self.transport.broadcast(task, reads[0] if reads else None, task.arg[0])

    def _softmax(self, task: Task, reads: Reads) -> Made:
        microbatch = task.arg[1]
        target = self.targets[microbatch]
        if self.shard is None or target is None:
            raise ScheduleError(f"{task}: rank {task.rank} has no shard of the output layer, or no target; give both")
        self.shard.s(microbatch, reads[0][0], target)
        return (None,)

    def _rest(self, task: Task, reads: Reads) -> Made:
        assert self.shard is not None
        self.shard.t(task.arg[1])
        return (None, None)[: len(task.writes)]

    def _copy(self, task: Task, reads: Reads) -> Made:
        if task.arg is None:
            return self._unshard(task)
        way, number, microbatch = task.arg
        stage = self.stages[number]
        if way == "OFFLOAD":
            return self._beside(task.lane, lambda: stage.copy_away(microbatch))
        return self._beside(task.lane, lambda: stage.reload(microbatch))

    def _free(self, task: Task, reads: Reads) -> Made:
        if task.arg is None:
            fsdp.reshard(self.stages[int(stem(task.reads[0])[4:])].module)
        else:
            number, microbatch = task.arg
            self.stages[number].drop(microbatch)
        return ()

    def _reserve(self, task: Task, reads: Reads) -> Made:
        """Where the copy back may begin, its memory is taken. Without a stage it is a wait and nothing else."""
        if isinstance(task.arg, tuple):
            number, microbatch = task.arg
            self.stages[number].open[microbatch].away = False
        return (None,)

    def _unshard(self, task: Task) -> Made:
        return (fsdp.unshard(self.stages[int(stem(task.writes[0])[4:])].module),)

    def _beside(self, lane: str, call: Callable[[], Any]) -> InThread:
        """Run in the thread of a lane."""
        thread = self._threads.setdefault(lane, ThreadPoolExecutor(1, f"{lane} of rank {self.transport.rank}"))

        def run() -> Sequence[Payload]:
            made = call()
            return (None,) if made is None else made

        future = thread.submit(run)
        future.add_done_callback(lambda _: self.transport.changed.set())
        return InThread(future)


def cut(tensor: Tensor, count: int, name: str) -> list[Tensor]:
    """A batch in microbatches, along the first dimension."""
    if tensor.shape[0] % count:
        raise ScheduleError(
            f"{name}: {tensor.shape[0]} rows do not divide into {count} microbatches; give a multiple of {count}"
        )
    return list(torch.chunk(tensor, count))
