"""A schedule on this rank, run as a Program: after a step every weight has the gradient of the whole batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

import torch
import torch.distributed as dist
from torch import Tensor, nn

from poise.core.errors import ScheduleError
from poise.pipeline.gathered import gathered
from poise.pipeline.lower import program_of
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule
from poise.program.passes import tied
from poise.program.task import rank_of, stem
from poise.runtime.fsdp import wrapped
from poise.runtime.given import MakeOptimizer, Modules, check_given, check_size, check_tied, module_of, world
from poise.runtime.guard import Guard
from poise.runtime.models.cut import Tie
from poise.runtime.program.distributed import Distributed
from poise.runtime.program.handle import Payload
from poise.runtime.program.interpreter import Interpreter, Ran
from poise.runtime.program.operations import op_of
from poise.runtime.program.output import OutputShard
from poise.runtime.program.stages import StageKernels, cut
from poise.runtime.record import Recorder
from poise.runtime.recording import Recording
from poise.runtime.replicas import in_replicas, shared_sizes
from poise.runtime.share import share_weights
from poise.runtime.stage import LossFn, Stage, Tensors
from poise.runtime.ties import Ties
from poise.runtime.versions import Versions
from poise.runtime.wire import Wire

Inputs = Tensor | Tensors | None
Batch = tuple[Inputs, Tensor | None]
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
    Stages wrapped by `fully_shard` are gathered, freed and reduced by the schedule; without UNSHARD in it, around each
    run of operations on them.

    A schedule whose weights change behind every backward needs `optimizer`, which makes one for the weights of a stage.
    One with vocabulary passes needs `output`, this rank's rows of the output layer, and targets on every rank; its loss
    is the cross entropy, and `loss_fn` is not used. `watched` counts the bytes that autograd holds. A `guard` gets
    where the rank is. `data` are the ranks that have this one's place in replicas of the whole pipeline: the mean of
    gradients is taken over them, in buckets of `bucket_mb` MiB while other stages still compute. `ties` are the weights
    that are in several stages, whose gradients are summed over these.
    """

    def __init__(
        self, schedule: Schedule, stages: Modules, loss_fn: LossFn, *,
        group: dist.ProcessGroup | None = None, device: torch.device | str = "cpu",
        optimizer: MakeOptimizer | None = None, output: nn.Linear | None = None, watched: bool = False,
        data: dist.ProcessGroup | None = None, guard: Guard | None = None, bucket_mb: float = 25.0,
        ties: Sequence[Tie] = (),
    ) -> None:  # fmt: skip
        schedule.check()
        self._guard = guard
        self.group = group or world()
        self.rank = self.group.rank()
        check_size(schedule, self.group.size())
        check_given(schedule, optimizer, output, data)
        check_tied(stages, output)
        sharded = wrapped(dict(stages) if isinstance(stages, Mapping) else dict(enumerate(stages)))
        if sharded and not any(op.kind is Kind.UNSHARD for row in schedule.ranks for op in row):
            schedule = gathered(schedule, sharded)
        self.schedule = schedule
        self.wire = Wire(self.group, torch.device(device))
        own = {stage: module_of(stages, stage, schedule, self.rank) for stage in self._own()}
        self.ties = Ties(ties, own)
        self.program = tied(program_of(schedule), [list(tie.places) for tie in ties])
        if data is not None:
            sizes = shared_sizes(schedule, own, output, self.ties, self.wire)
            self.program = in_replicas(self.program, data.size(), sizes, bucket_mb)
        else:
            self.program.prove()
        self._transport = Distributed(self.program, self.group, self.wire.device, data)
        root, barriers = schedule.homes[-1][0], schedule.barriers
        self.shard = OutputShard(output, self._transport, root, barriers) if output and barriers else None
        self._watched = watched or any(op.kind is Kind.OFFLOAD for op in schedule.ranks[self.rank])
        self.stages = {stage: self._stage(stage, module, loss_fn, optimizer) for stage, module in own.items()}
        self._kernels = StageKernels(self._transport, self.stages, self.shard, self.ties)
        self._interpreter = Interpreter(
            self.program,
            self.rank,
            self._kernels.table,
            self._transport.changed,
            watch=guard and _Watch(guard, self.wire, data),
        )
        share_weights(schedule, self.stages, self.wire)

    def step(
        self, inputs: Inputs = None, target: Tensor | None = None, *, shared: Mapping[str, Tensor] | None = None,
        recorder: Recorder | None = None,
    ) -> Outcome:  # fmt: skip
        """Run the schedule once over a batch, cut into microbatches along the first dimension.

        Gradients of before are dropped; afterwards `.grad` is that of the mean of the microbatches' losses. `shared`
        are keyword inputs of every stage, as positions, given on every rank. A `recorder` (see `record`) gets all
        events with their times.
        """
        given, targets = self._cut(inputs, target)
        rows = [cut(each, self.schedule.microbatches, name) for name, each in (shared or {}).items()]
        self._kernels.begin(targets, [dict(zip(shared or {}, each, strict=True)) for each in zip(*rows, strict=True)])
        done: list[Op] = []

        def note(ran: Ran) -> None:
            op = op_of(self.schedule, ran.task)
            if op is not None:
                done.append(op)
                if recorder is not None:
                    recorder.note(op, ran)

        self._interpreter.note = note
        self._interpreter.clock = perf_counter_ns if recorder is None else recorder.now
        if recorder is not None:
            recorder.begin(self.group)
        self._interpreter.run(given)
        self._finish()
        return Outcome({each: loss for stage in self.stages.values() for each, loss in stage.losses.items()}, done)

    def _finish(self) -> None:
        """See that all messages have left."""
        if self._guard is not None:
            self._guard.at("the end of the step")
            self._guard.wait(self.wire.globals[self.another])
        self._transport.finish()
        if self._guard is not None:
            self._guard.go()

    @property
    def another(self) -> int:
        """The pseudo-rank of all others, for waits for all of them."""
        return (self.rank + 1) % self.group.size()

    def record(
        self, inputs: Inputs = None, target: Tensor | None = None, *, shared: Mapping[str, Tensor] | None = None
    ) -> tuple[Outcome, Recording]:
        """A step and its recording, on all ranks."""
        recorder = Recorder(self.wire.device, self.held)
        outcome = self.step(inputs, target, shared=shared, recorder=recorder)
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

    def _cut(self, inputs: Inputs, target: Tensor | None) -> tuple[dict[str, Payload], list[Tensor | None]]:
        """What the Program is given on this rank, and the targets: the batch in microbatches."""
        count = self.schedule.microbatches
        first, last = 0 in self.stages, self.schedule.stages - 1 in self.stages
        batch = (inputs,) if isinstance(inputs, Tensor) else inputs or ()
        if first and not batch:
            raise ScheduleError(f"rank {self.rank} has the first stage but got no inputs; pass them to step()")
        parts = [cut(each, count, "inputs") for each in batch] if first else []
        if self._watched:  # so that each has a storage of its own
            parts = [[each.clone() for each in part] for part in parts]
        rows = list(zip(*parts, strict=True))
        given: dict[str, Payload] = {name: None for name in self.program.given if rank_of(name) == self.rank}
        for name in given:
            if name.startswith("in."):
                given[name] = rows[int(stem(name)[3:])]
        wanted = last or self.shard is not None
        if self.shard is not None and target is None:
            raise ScheduleError(f"rank {self.rank} has a shard of the vocabulary but got no target; pass it to step()")
        targets: list[Tensor | None] = [None] * count
        if wanted and target is not None:
            targets = [*cut(target, count, "target")]
        return given, targets

    def _own(self) -> list[int]:
        return [stage for stage, homes in enumerate(self.schedule.homes) if self.rank in homes]

    def _stage(self, stage: int, module: nn.Module, loss_fn: LossFn, optimizer: MakeOptimizer | None) -> Stage:
        last = stage == self.schedule.stages - 1 and self.shard is None
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


class _Watch:
    """A guard that is given ranks of the pipeline's group, or of its replicas, counted from this one on."""

    def __init__(self, guard: Guard, wire: Wire, data: dist.ProcessGroup | None) -> None:
        self._guard, self._ranks = guard, list(wire.globals)
        self.at, self.go = guard.at, guard.go
        for more in range(1, data.size() if data is not None else 1):
            assert data is not None
            other = dist.get_global_rank(data, (data.rank() + more) % data.size())
            self._ranks += [other] * len(wire.globals)

    def wait(self, rank: int) -> None:
        """It waits for a rank."""
        self._guard.wait(self._ranks[rank])
