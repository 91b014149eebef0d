"""A rank of `poise train run`: data, pipeline, optimizer, checkpoints, and on rank 0 the loss curve."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from poise.runtime.checkpoint import Checkpoints, latest
from poise.runtime.data import Bytes
from poise.runtime.decoder import Head, cross_entropy, cut, decoder
from poise.runtime.guard import Guard, Seat
from poise.runtime.job import BYTES, Job
from poise.runtime.late import LateNorm
from poise.runtime.norm import clip
from poise.runtime.pipeline import Pipeline
from poise.runtime.report import Report
from poise.runtime.tensor import TensorPeers


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
        self.rank, self.part = divmod(place, job.tensor)
        self.device = _device()
        torch.manual_seed(job.seed + self.number)
        group, self.side, self.beside = self._groups()
        modules, output = self._modules()
        self.pipeline = Pipeline(
            job.schedule, modules, cross_entropy, device=self.device, optimizer=self._optimizer, output=output,
            watched=job.recording is not None, group=group, data=self.side, guard=guard,
        )  # fmt: skip
        self.parts: dict[str, nn.Module] = {
            self._name("stage", number): stage.module for number, stage in self.pipeline.stages.items()
        }
        if output is not None:
            self.parts[self._name("shard", self.rank)] = output
        self.optimizers = {name: self._made(name, part) for name, part in self.parts.items()}
        late = job.late and job.clip is not None
        self.late = LateNorm(self.pipeline, self.parts, self.optimizers, job.clip or 0.0, self.beside) if late else None
        rows = job.rows * job.schedule.microbatches * job.replicas
        self.data = Bytes(job.text, job.size.length, rows, job.seed)
        self.checkpoints = Checkpoints(job.out, job.about())

    def run(self) -> None:
        """All steps that are left."""
        job = self.job
        start = latest(job.out, job.about()) if job.resume else 0
        if start:
            self._load(start)
        report = Report(job, start) if self.number == 0 else None
        for step in range(start, job.steps):
            began = time.monotonic()
            loss = self._step(step)
            if report is not None:
                report.add(step, loss, time.monotonic() - began)
            if (step + 1) % job.every == 0 or step + 1 == job.steps:
                self._save(step + 1)
                if report is not None:
                    report.draw()
        if report is not None:
            report.close()

    def _step(self, step: int) -> float:
        """One step, and its loss."""
        self._settle()
        parts = (each.chunk(self.job.replicas)[self.replica] for each in self.data.batch(step))
        inputs, target = (each.to(self.device) for each in parts)
        if step == self.job.steps - 1 and (self.job.recording or self.job.timeline):
            outcome, recording = self.pipeline.record(inputs, target)
            if self.number == 0:
                self._keep(recording)
        else:
            outcome = self.pipeline.step(inputs, target)
        with self.guard.together("the loss"):
            losses = self.pipeline.losses(outcome)
            loss = torch.tensor(sum(losses) / len(losses), dtype=torch.float64, device=self.device)
            if self.side is not None:
                dist.all_reduce(loss, group=self.side)
        self._update()
        return loss.item() / self.job.replicas

    def _update(self) -> None:
        """Step the optimizers, where no backward has done it; not by gradients that are not finite."""
        right = True
        with self.guard.together("the norm of the gradients"):
            if self.late is not None:
                self.late.step()
            elif self.job.clip is not None:
                right = isfinite(clip(self.pipeline, self.parts.values(), self.job.clip, self.beside))
        self.guard.at("the optimizer")
        for name, optimizer in self.optimizers.items() if right and self.late is None else ():
            if name.startswith("shard") or self.job.schedule.updates == "flush":
                optimizer.step()

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

    def _groups(self) -> tuple[dist.ProcessGroup | None, dist.ProcessGroup | None, TensorPeers | None]:
        """The ranks of this pipeline, those of the same place in all pipelines, and those that share its stages.

        None where there is but one. Processes are numbered by replica, then rank, then part.
        """
        tensor, size = self.job.tensor, self.ranks * self.job.tensor
        if self.job.processes == self.ranks:
            return None, None, None
        begin, place = self.replica * size, self.number % size
        pipeline = _group(range(begin + self.part, begin + size, tensor))
        side = _group(range(place, self.job.processes, size)) if self.job.replicas > 1 else None
        first = self.number - self.part
        beside = TensorPeers(_group(range(first, first + tensor)), self.guard) if tensor > 1 else None
        return pipeline, side, beside

    def _name(self, kind: str, number: int) -> str:
        """Of a stage's or a vocabulary shard's file."""
        return f"{kind}-{number}" + (f"-part-{self.part}" if self.job.tensor > 1 else "")

    def _modules(self) -> tuple[list[nn.Module], nn.Linear | None]:
        """The stages, and this rank's shard of the output layer where the schedule has vocabulary passes."""
        parts = decoder(replace(self.job.size, vocabulary=BYTES), seed=self.job.seed, beside=self.beside)
        output = None
        if self.job.schedule.barriers:
            head = parts[-1]
            assert isinstance(head, Head)
            rows = BYTES // self.ranks
            output = nn.Linear(self.job.size.hidden, rows, bias=False)
            output.weight.data.copy_(head.out.weight.data[self.rank * rows : (self.rank + 1) * rows])
            output.to(self.device)
            parts[-1] = head.norm
        stages = cut(parts, self.job.schedule.stages)
        for number, homes in enumerate(self.job.schedule.homes):
            if self.rank in homes:
                stages[number].to(self.device)
        return stages, output

    def _optimizer(self, weights: Iterable[nn.Parameter]) -> Optimizer:
        make = AdamW if self.job.optimizer == "adamw" else partial(SGD, momentum=0.9)
        return make(weights, lr=self.job.lr)

    def _made(self, name: str, part: nn.Module) -> Optimizer:
        """The optimizer of a part: where weights change behind every backward the stage has it already."""
        for number, stage in self.pipeline.stages.items():
            if stage.versions is not None and name == self._name("stage", number):
                return stage.versions.optimizer
        return self._optimizer(part.parameters())

    def _save(self, step: int) -> None:
        self._settle()
        parts: dict[str, Any] = {f"chance-{self.number}": torch.get_rng_state()}
        for name, part in self.parts.items() if self.replica == 0 else ():
            kind, number = name.split("-")[:2]
            if kind == "stage" and self.job.schedule.homes[int(number)][0] != self.rank:
                continue  # a copy, which the first one saves
            parts[name] = {"weights": part.state_dict(), "optimizer": self.optimizers[name].state_dict()}
        with self.guard.together("the checkpoint"):
            self.checkpoints.save(step, parts, first=self.number == 0)

    def _load(self, step: int) -> None:
        for name, part in self.parts.items():
            saved = self.checkpoints.load(step, name)
            part.load_state_dict(saved["weights"])
            self.optimizers[name].load_state_dict(saved["optimizer"])
        torch.set_rng_state(self.checkpoints.load(step, f"chance-{self.number}"))


def _group(ranks: range) -> dist.ProcessGroup:
    found: dist.ProcessGroup = dist.new_group(list(ranks), use_local_synchronization=True)
    return found


def _device() -> torch.device:
    if not torch.cuda.is_available() or "nccl" not in str(dist.get_backend_config()):
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())
