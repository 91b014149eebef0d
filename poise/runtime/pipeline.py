"""A rank's row of a checked schedule, interpreted: after a step every weight has the gradient of the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from poise.core.errors import ScheduleError
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule
from poise.runtime.exchange import Exchange
from poise.runtime.given import MakeOptimizer, Modules, check_given, check_sharded, check_size, check_tied, world
from poise.runtime.guard import Guard
from poise.runtime.record import Recorder
from poise.runtime.recording import Recording
from poise.runtime.routes import Task, tasks_of
from poise.runtime.share import average, share_weights, sum_copies
from poise.runtime.stage import LossFn, Stage, Tensors
from poise.runtime.versions import Versions
from poise.runtime.vocabulary import Shard
from poise.runtime.wire import Wire

Batch = tuple[Tensor | Tensors | None, Tensor | None]
"""Inputs, which the ranks with the first stage need, and target, which those with the last one need."""


@dataclass(frozen=True)
class Outcome:
    """What a step leaves besides the gradients."""

    losses: dict[int, Tensor]
    """Of the microbatches whose last stage is on this rank."""
    done: list[Op]
    """What this rank ran, in order."""


class Pipeline:
    """The stages of this rank under a schedule. Ranks are counted within `group` (default: all processes).

    `stages` holds this rank's modules by stage number, or all modules. The schedule is proven first. Where a stage has
    copies on several ranks, the weights of its first rank are taken by all, and gradients are summed over them.
    UNSHARD and RESHARD ask for sharded weights, which modules bring themselves; here they do nothing.

    A schedule whose weights change behind every backward needs `optimizer`, which makes one for the weights of a stage.
    One with vocabulary passes needs `output`, this rank's rows of the output layer, and targets on every rank; its loss
    is the cross entropy, and `loss_fn` is not used. `watched` counts the bytes that autograd holds. A `guard` gets
    where the rank is. `data` are the ranks that have this one's place in replicas of the whole pipeline, over which
    gradients are averaged.
    """

    def __init__(
        self, schedule: Schedule, stages: Modules, loss_fn: LossFn, *,
        group: dist.ProcessGroup | None = None, device: torch.device | str = "cpu",
        optimizer: MakeOptimizer | None = None, output: nn.Linear | None = None, watched: bool = False,
        data: dist.ProcessGroup | None = None, guard: Guard | None = None,
    ) -> None:  # fmt: skip
        schedule.check()
        self._guard, self._data = guard, data
        self.group = group or world()
        self.rank = self.group.rank()
        check_size(schedule, self.group.size())
        check_given(schedule, optimizer, output, data)
        check_tied(stages, output)
        self.schedule = schedule
        self.tasks = tasks_of(schedule, self.rank)
        self.wire = Wire(self.group, torch.device(device))
        self.shard = Shard(schedule, output, self.group, self.wire.device) if output and schedule.barriers else None
        self._watched = watched or any(task.op.kind is Kind.OFFLOAD for task in self.tasks)
        self.stages = {stage: self._stage(stage, stages, loss_fn, optimizer) for stage in self._own()}
        check_sharded(schedule, {stage: each.module for stage, each in self.stages.items()}, self.rank)
        self._again = {task.op[::2] for task in self.tasks if task.op.kind is Kind.R}
        self._recorder: Recorder | None = None
        self._exchange = Exchange(self.rank, self.wire, self._wait, self._ready)
        self._act: dict[Kind, Callable[[Task], None]] = {
            Kind.F: self._forward, Kind.I: self._backward, Kind.B: self._backward, Kind.W: self._weight,
            Kind.SEND_F: self._exchange.send, Kind.SEND_B: self._exchange.send,
            Kind.RECV_F: self._receive, Kind.RECV_B: self._receive,
            Kind.REDUCE_GRAD: self._scale, Kind.R: self._recompute, Kind.OFFLOAD: self._offload,
            Kind.RELOAD: self._reload, Kind.S: self._s, Kind.T: self._t,
        }  # fmt: skip
        share_weights(schedule, self.stages, self.wire)

    def step(
        self, inputs: Tensor | Tensors | None = None, target: Tensor | None = None, *, recorder: Recorder | None = None,
    ) -> Outcome:  # fmt: skip
        """Run the schedule once over a batch, cut into microbatches along the first dimension.

        Gradients of before are dropped; afterwards `.grad` is that of the mean of the microbatches' losses. A
        `recorder` (see `record`) gets all events with their times.
        """
        self._recorder = recorder
        self._cut(inputs, target)
        self.wire.begin()
        for stage in self.stages.values():
            stage.module.zero_grad(set_to_none=True)
            stage.losses.clear()
            if stage.versions is not None:
                stage.versions.begin()
        if self.shard is not None:
            self.shard.begin()
        if recorder is not None:
            recorder.begin(self.group)
        done = []
        for task in self.tasks:
            if self._guard is not None:
                self._guard.at(str(task.op))
            if recorder is not None:
                recorder.reach()
            act = self._act.get(task.op.kind)
            if act is not None:
                act(task)
            done.append(task.op)
            if recorder is not None:
                recorder.done(task.op)
        self._finish()
        return Outcome({each: loss for stage in self.stages.values() for each, loss in stage.losses.items()}, done)

    def _finish(self) -> None:
        """Sum over copies, and see that all messages have left."""
        if self._guard is not None:
            self._guard.at("the end of the step")
        self._wait(self.another)
        sum_copies(self.schedule, self.stages, self.wire)
        if self.shard is not None:
            self.shard.finish()
        if self._data is not None:
            layers = [stage.module for stage in self.stages.values()] + ([self.shard.layer] if self.shard else [])
            average(layers, self._data)
        self.wire.finish()
        self._ready()

    @property
    def another(self) -> int:
        """The pseudo-rank of all others, for waits for all of them."""
        return (self.rank + 1) % self.group.size()

    def record(self, inputs: Tensor | Tensors | None = None, target: Tensor | None = None) -> tuple[Outcome, Recording]:
        """A step and its recording, on all ranks."""
        recorder = Recorder(self.wire.device, self.held)
        outcome = self.step(inputs, target, recorder=recorder)
        return outcome, recorder.gather(self.schedule, self.group)

    def held(self) -> tuple[int, int]:
        """How many microbatches have activations in a stage here; the bytes of these, if the pipeline is `watched`."""
        opened = [each for stage in self.stages.values() for each in stage.open.values()]
        storages: dict[int, int] = {}
        for each in opened:
            storages |= each.saved.storages() if each.saved is not None else {}
        return sum(each.full for each in opened), sum(storages.values())

    def losses(self, outcome: Outcome) -> list[float]:
        """The loss of every microbatch, on all ranks: a collective."""
        summed = torch.zeros(self.schedule.microbatches, dtype=torch.float64, device=self.wire.device)
        for microbatch, loss in outcome.losses.items():
            summed[microbatch] = loss
        dist.all_reduce(summed, group=self.group)
        found: list[float] = summed.tolist()
        return found

    def _forward(self, task: Task) -> None:
        op = task.op
        stage, microbatch = self.stages[op.stage], _microbatch(op)
        inputs = self._inputs[microbatch] if task.source is None else self._exchange.take(True, task)
        target = self._targets[microbatch] if stage.loss_fn is not None else None
        keep = (op.stage, op.microbatch) not in self._again
        outputs = stage.forward(microbatch, inputs, target, keep=keep)
        if self.shard is not None and op.stage == self.schedule.stages - 1:
            if self._recorder is not None:
                self._recorder.made()
            self.shard.share(microbatch, outputs[0])
        self._exchange.give(True, task, outputs)

    def _backward(self, task: Task) -> None:
        op = task.op
        stage, microbatch = self.stages[op.stage], _microbatch(op)
        gradients = self._ending(stage, microbatch) if task.source is None else self._exchange.take(False, task)
        run = stage.backward_input if op.kind is Kind.I else stage.backward
        self._exchange.give(False, task, run(microbatch, gradients))

    def _ending(self, stage: Stage, microbatch: int) -> Tensors:
        """The gradients that the end of the pipeline gives: none but those of a vocabulary in shards."""
        if self.shard is None:
            return ()
        self._wait(self.another)
        self.shard.wait(microbatch)
        self._ready()
        stage.losses[microbatch], gradient = self.shard.result(microbatch, stage.open[microbatch].shapes[0].shape)
        return (gradient,)

    def _recompute(self, task: Task) -> None:
        self.stages[task.op.stage].recompute(_microbatch(task.op))

    def _offload(self, task: Task) -> None:
        self.stages[task.op.stage].offload(_microbatch(task.op))

    def _reload(self, task: Task) -> None:
        self.stages[task.op.stage].reload(_microbatch(task.op), self.wire.device)

    def _s(self, task: Task) -> None:
        microbatch = _microbatch(task.op)
        target = self._targets[microbatch]
        assert self.shard is not None and target is not None
        self._wait(self.shard.root)
        x = self.shard.take(microbatch)
        self._ready()
        self.shard.s(microbatch, x, target)

    def _t(self, task: Task) -> None:
        assert self.shard is not None
        self._wait(self.another)
        self.shard.wait(_microbatch(task.op))
        self._ready()
        self.shard.t(_microbatch(task.op))

    def _weight(self, task: Task) -> None:
        self.stages[task.op.stage].backward_weight(_microbatch(task.op))

    def _receive(self, task: Task) -> None:
        op = task.op
        like = self.stages[op.stage].open[_microbatch(op)].shapes if op.kind is Kind.RECV_B else None
        self._exchange.receive(task, like)

    def _scale(self, task: Task) -> None:
        self.stages[task.op.stage].scale(1 / self.schedule.microbatches)

    def _wait(self, rank: int) -> None:
        if self._guard is not None:
            self._guard.wait(self.wire.globals[rank])

    def _ready(self) -> None:
        if self._guard is not None:
            self._guard.go()
        if self._recorder is not None:
            self._recorder.ready()

    def _cut(self, inputs: Tensor | Tensors | None, target: Tensor | None) -> None:
        """Batch to microbatches, on the ranks that use them."""
        count = self.schedule.microbatches
        first, last = 0 in self.stages, self.schedule.stages - 1 in self.stages
        given = (inputs,) if isinstance(inputs, Tensor) else inputs or ()
        if first and not given:
            raise ScheduleError(f"rank {self.rank} has the first stage but got no inputs; pass them to step()")
        parts = [_parts(each, count, "inputs") for each in given] if first else []
        if self._watched:  # so that each has a storage of its own
            parts = [[each.clone() for each in part] for part in parts]
        self._inputs = list(zip(*parts, strict=True))
        wanted = last or self.shard is not None
        if self.shard is not None and target is None:
            raise ScheduleError(f"rank {self.rank} has a shard of the vocabulary but got no target; pass it to step()")
        self._targets = _parts(target, count, "target") if wanted and target is not None else [None] * count

    def _own(self) -> list[int]:
        return [stage for stage, homes in enumerate(self.schedule.homes) if self.rank in homes]

    def _stage(self, stage: int, modules: Modules, loss_fn: LossFn, optimizer: MakeOptimizer | None) -> Stage:
        last = stage == self.schedule.stages - 1 and self.shard is None
        try:
            module = modules[stage]
        except (IndexError, KeyError):
            raise ScheduleError(
                f"stage {stage} has no module on rank {self.rank}, where {self.schedule.name or 'the schedule'} runs "
                f"it; give one for each of the stages {', '.join(map(str, self._own()))}"
            ) from None
        versions = None
        if optimizer is not None and self.schedule.updates != "flush":
            made = optimizer(module.parameters())
            versions = Versions(module, made, self.schedule, stage, self.rank)
        return Stage(stage, module, loss_fn if last else None, versions=versions, watched=self._watched)


def execute(
    schedule: Schedule, stages: Modules, batch: Batch, loss_fn: LossFn, *,
    group: dist.ProcessGroup | None = None, device: torch.device | str = "cpu",
    optimizer: MakeOptimizer | None = None, output: nn.Linear | None = None,
) -> Outcome:  # fmt: skip
    """One step of a `Pipeline`: prove `schedule`, run it over `batch`, leave the gradients in the modules."""
    made = Pipeline(schedule, stages, loss_fn, group=group, device=device, optimizer=optimizer, output=output)
    return made.step(*batch)


def _parts(tensor: Tensor, count: int, name: str) -> list[Tensor]:
    if tensor.shape[0] % count:
        raise ScheduleError(
            f"{name}: {tensor.shape[0]} rows do not divide into {count} microbatches; give a multiple of {count}"
        )
    return list(tensor.chunk(count))


def _microbatch(op: Op) -> int:
    assert op.microbatch is not None
    return op.microbatch
