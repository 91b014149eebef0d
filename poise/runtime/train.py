"""A rank of `poise train run`: data, pipeline, optimizer, checkpoints, and on rank 0 the loss curve."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from math import isfinite
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from poise.runtime.checkpoint import latest
from poise.runtime.data import Bytes, Packed, Padded, Source
from poise.runtime.documents import read_documents
from poise.runtime.groups import groups
from poise.runtime.guard import Guard, Seat
from poise.runtime.job import Job
from poise.runtime.late import LateNorm
from poise.runtime.loss import TokenLoss
from poise.runtime.metrics import Metrics
from poise.runtime.norm import counts, factor, norms, scale
from poise.runtime.pipeline import Pipeline
from poise.runtime.process_groups import device_here, groups_of
from poise.runtime.report import Report
from poise.runtime.scale import LossScale
from poise.runtime.stages import named, named_shard, stages_of
from poise.runtime.store import Saved


def train(job: Job, seat: Seat) -> None:
    """Run the job on this rank, within a process group."""
    with Guard(seat, timeout_s=job.timeout_s) as guard:
        Trainer(job, guard).run()


class Trainer:
    """What a rank has: its stages, an optimizer for each, and their checkpoints."""

    def __init__(self, job: Job, guard: Guard) -> None:
        self.job, self.guard = job, guard
        self.number, self.ranks = dist.get_rank(), len(job.schedule.ranks)
        self.replica, place = divmod(self.number, self.ranks * job.tensor)
        self.rank = place // job.tensor
        self.device = device_here()
        torch.manual_seed(job.seed + self.number)
        group, self.side, self.beside = groups_of(job, self.number, guard)
        made = stages_of(job, self.rank, self.device, self.beside)
        self.scale = LossScale() if job.precision == "fp16" else None
        self.loss = TokenLoss(job.schedule.microbatches * job.replicas, self.side)
        self.pipeline = Pipeline(
            job.schedule, made.parts, self.loss, device=self.device, optimizer=self._optimizer, output=made.output,
            watched=job.recording is not None, group=group, data=self.side, guard=guard,
            bucket_mb=job.bucket_mb, ties=made.ties,
        )  # fmt: skip
        self.parts: dict[str, nn.Module] = {f"stage-{stage}": part for stage, part in made.parts.items()}
        self.weights = {f"stage-{stage}": named(part, self.beside) for stage, part in made.parts.items()}
        if made.output is not None:
            self.parts["shard"] = made.output
            self.weights["shard"] = named_shard(made.output, self.rank, self.ranks)
        self.optimizers = {name: self._made(name, part) for name, part in self.parts.items()}
        self.late = None
        if job.late and job.clip is not None:
            skip = self.pipeline.ties.repeated
            self.late = LateNorm(self.pipeline, self.parts, self.optimizers, job.clip, self.beside, skip)
        self.data = _source(job)
        self.saved = Saved(self, job)

    def run(self) -> None:
        """All steps that are left."""
        job = self.job
        start = latest(job.out, job.about()) if job.resume else 0
        if start:
            self.saved.load(start)
        count = self._count()
        report = Report(job, start) if self.number == 0 else None
        metrics = Metrics(job.metrics, job.tensorboard, start) if self.number == 0 else None
        for step in range(start, job.steps):
            began = time.monotonic()
            figures = self._step(step)
            seconds = time.monotonic() - began
            if report is not None and metrics is not None:
                report.add(step, figures["loss"], seconds)
                metrics.add({"step": step, **figures, "seconds": seconds, "tokens_per_s": self.loss.tokens / seconds})
            if (step + 1) % job.every == 0 or step + 1 == job.steps:
                self._save(step + 1)
                if report is not None:
                    report.draw()
        if report is not None and metrics is not None:
            report.close(self.loss.tokens, count)
            metrics.close()

    def _step(self, step: int) -> dict[str, float]:
        """One step, and its figures by name."""
        self._settle()
        rate = self._set_rate(step)
        whole = self.data.batch(step)
        inputs, target = (self._own(each) for each in whole[:2])
        shared = {name: self._own(each) for name, each in whole.shared.items()}
        with self.guard.together("the number of tokens"):
            self.loss.begin(target)
        self.loss.scale = self.scale.scale if self.scale is not None else 1.0
        if step == self.job.steps - 1 and (self.job.recording or self.job.timeline):
            outcome, recording = self.pipeline.record(inputs, target, shared=shared)
            if self.number == 0:
                self._keep(recording)
        else:
            outcome = self.pipeline.step(inputs, target, shared=shared)
        with self.guard.together("the loss"):
            losses = self.pipeline.losses(outcome)
            loss = torch.tensor(sum(losses) / len(losses), dtype=torch.float64, device=self.device)
            if self.side is not None:
                dist.all_reduce(loss, group=self.side)
        figures = {"loss": loss.item() / self.job.replicas / self.loss.scale, "lr": rate, "tokens": self.loss.tokens}
        return figures | self._update()

    def _count(self) -> int:
        """How many weights the model has: a collective of all pipelines' ranks and parts."""
        total = torch.tensor(counts(self.pipeline, self.beside, self.pipeline.ties.repeated), device=self.device)
        dist.all_reduce(total, group=self.pipeline.group)
        return int(total.item())

    def _own(self, whole: Tensor) -> Tensor:
        """This replica's rows."""
        return whole.chunk(self.job.replicas)[self.replica].to(self.device)

    def _set_rate(self, step: int) -> float:
        rate = self.job.lr * self.job.plan.factor(step)
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = rate
        return rate

    def _update(self) -> dict[str, float]:
        """Step the optimizers, where no backward has done it; the norms of the gradients, where they were needed."""
        if self.late is not None:
            with self.guard.together("the norm of the gradients"):
                self.late.step()
            return {}
        right, figures = True, {}
        if self.job.schedule.updates == "flush" and self._measured:
            with self.guard.together("the norm of the gradients"):
                found = norms(self.pipeline, self.beside, self.pipeline.ties.repeated, self.loss.scale)
            figures = {"gradient_l2": found.l2, "gradient_l1": found.l1}
            by = factor(found.l2, self.job.clip) if self.job.clip is not None else 1.0
            scale((weight for part in self.parts.values() for weight in part.parameters()), by / self.loss.scale)
            right = isfinite(found.l2) or self.job.clip is None
            if self.scale is not None:
                figures["loss_scale"], right = self.scale.scale, self.scale.update(found.l2)
        self.guard.at("the optimizer")
        for name, optimizer in self.optimizers.items() if right else ():
            if name == "shard" or self.job.schedule.updates == "flush":
                optimizer.step()
        return figures

    @property
    def _measured(self) -> bool:
        """Whether the norms of gradients are needed."""
        job = self.job
        return job.clip is not None or self.scale is not None or bool(job.metrics or job.tensorboard)

    def _settle(self) -> None:
        """Correct the last step where it was taken by the wrong norm."""
        if self.late is not None:
            with self.guard.together("the norm of all gradients"):
                self.late.settle()

    def _keep(self, recording: Any) -> None:
        from poise.report.files import replacing

        if self.job.recording is not None:
            recording.save(self.job.recording)
        if self.job.timeline is not None:
            with replacing(self.job.timeline) as file:
                file.write(recording.trace())

    def _optimizer(self, weights: Iterable[nn.Parameter]) -> Optimizer:
        make = AdamW if self.job.optimizer == "adamw" else partial(SGD, momentum=0.9)
        return make(groups(weights, self.job.decay), lr=self.job.lr)

    def _made(self, name: str, part: nn.Module) -> Optimizer:
        """The optimizer of a part: where weights change behind every backward the stage has it already."""
        for number, stage in self.pipeline.stages.items():
            if stage.versions is not None and name == f"stage-{number}":
                return stage.versions.optimizer
        return self._optimizer(part.parameters())

    def _save(self, step: int) -> None:
        self._settle()
        with self.guard.together("the checkpoint"):
            self.saved.save(step)


def _source(job: Job) -> Source:
    """Where the batches of all replicas are from."""
    if job.data == "bytes":
        return Bytes(job.text, job.size.length, job.sequences, job.seed)
    kind = Packed if job.data == "packed" else Padded
    return kind(read_documents(job.text, job.size.vocabulary), job.size.length, job.sequences, job.seed)
