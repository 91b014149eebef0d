"""The output layer in shards, one on each rank, with the loss: the passes S and T of Vocabulary Parallelism.

After Yeung et al., "Balancing Pipeline Parallelism with Vocabulary Parallelism" (MLSys 2025), algorithms 1 and 2. Each
shard normalises by its own largest logit and sum; the exchange between shards, three numbers per token, makes
this the softmax over all. With two barriers T makes each shard's part of the gradient of X, and of its weights, from
that. With one barrier S has made both products that the gradient of X consists of, so the last stage can go on at
once, and T, which makes the weight gradient alone, may run at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from poise.core.errors import ScheduleError
from poise.pipeline.op import Kind
from poise.pipeline.schedule import Schedule
from poise.runtime.wire import Wire

Whole = tuple[Tensor, Tensor, Tensor]
"""Largest logit, sum and logit of the target, by token, over all shards."""


@dataclass
class Passing:
    """A microbatch between its S and the last stage's backward."""

    x: Tensor
    target: Tensor
    own: Tensor
    """Largest logit, sum and logit of the target, by token, of this shard."""
    softmax: Tensor
    statistics: list[Tensor] = field(default_factory=list)
    """The same of all shards."""
    parts: list[Tensor] = field(default_factory=list)
    """On the last stage: each shard's products for the gradient of X."""
    works: list[Any] = field(default_factory=list)


class Shard:
    """This rank's rows of the output layer. X is sent to all ranks as soon as the last stage has it.

    Messages and collectives have groups of their own, since their order is not that between stages.
    """

    def __init__(self, schedule: Schedule, layer: nn.Linear, group: dist.ProcessGroup, device: torch.device) -> None:
        self.layer = layer
        self.two = schedule.barriers == 2
        self.ranks, self.rank, self.device = group.size(), group.rank(), device
        self.root = _root(schedule)
        members = [dist.get_global_rank(group, rank) for rank in range(self.ranks)]
        groups = [dist.new_group(members, use_local_synchronization=True) for _ in range(3)]
        self._wire = Wire(groups[0], device)
        self._behind_s, self._behind_t = groups[1], groups[2]
        self._coming = [op.microbatch for op in schedule.ranks[self.root] if op[:2] == (schedule.stages - 1, Kind.F)]
        self._count = schedule.microbatches
        self.begin()

    def begin(self) -> None:
        """Forget the step before."""
        self._wire.begin()
        self._queue = iter(self._coming)
        self._here: dict[int | None, Tensor] = {}
        self._open: dict[int, Passing] = {}
        self.layer.zero_grad(set_to_none=True)

    def share(self, microbatch: int, x: Tensor) -> None:
        """On the last stage, behind its forward: X to all."""
        self._here[microbatch] = x.detach()
        for rank in range(self.ranks):
            if rank != self.root:
                self._wire.send((x.detach(),), rank, 0)

    def take(self, microbatch: int) -> Tensor:
        """X of a microbatch, once it is here; what comes before it is laid by."""
        while microbatch not in self._here:
            self._here[next(self._queue)] = self._wire.receive(self.root, 0).wait()[0]
        return self._here.pop(microbatch)

    def wait(self, microbatch: int) -> None:
        """Wait for the other shards' values so far."""
        works = self._open[microbatch].works
        while works:
            works.pop(0).wait()

    @torch.no_grad()
    def s(self, microbatch: int, x: Tensor, target: Tensor) -> None:
        """Logits of the shard, its softmax, and what the others need of it."""
        x = x.flatten(0, -2)
        weight = self.layer.weight
        logits = x @ weight.T
        largest = logits.max(-1).values
        powers = (logits - largest[:, None]).exp()
        total = powers.sum(-1)
        mine, local = self._mine(target)
        hit = torch.where(mine, logits.gather(1, local[:, None])[:, 0], 0)
        passing = Passing(x, target, torch.stack([largest, total, hit]), powers / total[:, None])
        passing.statistics = [torch.empty_like(passing.own) for _ in range(self.ranks)]
        self._open[microbatch] = passing
        passing.works.append(dist.all_gather(passing.statistics, passing.own, group=self._behind_s, async_op=True))
        if not self.two:
            products = torch.stack([passing.softmax @ weight, mine[:, None] * weight[local]])
            if self.rank == self.root:
                passing.parts = [torch.empty_like(products) for _ in range(self.ranks)]
            root = dist.get_global_rank(self._behind_s, self.root)
            passing.works.append(
                dist.gather(products, passing.parts or None, root, group=self._behind_s, async_op=True)
            )

    @torch.no_grad()
    def t(self, microbatch: int) -> None:
        """Behind `wait`: the gradient of the shard's weights; with two barriers its part of that of X as well."""
        passing = self._open[microbatch]
        mine, local = self._mine(passing.target)
        rows = passing.softmax * _factor(passing.statistics[self.rank], self._whole(passing))[:, None]
        rows[torch.arange(len(local)), local] -= mine.to(rows.dtype)
        rows /= len(local)
        weight = self.layer.weight
        gradient = rows.T @ passing.x
        weight.grad = gradient if weight.grad is None else weight.grad.add_(gradient)
        if self.two:
            part = rows @ weight
            root = dist.get_global_rank(self._behind_t, self.root)
            passing.parts = [part]
            passing.works.append(dist.reduce(part, root, group=self._behind_t, async_op=True))
        if self.rank != self.root:
            passing.x = passing.softmax = passing.own

    def result(self, microbatch: int, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """On the last stage, behind `wait`: the loss, and the gradient of X."""
        passing = self._open[microbatch]
        largest, total, hit = whole = self._whole(passing)
        loss = (total.log() + largest - hit).mean()
        if self.two:
            return loss, passing.parts[0].reshape(shape)
        found = torch.zeros_like(passing.parts[0][0])
        for rank, (soft, hits) in enumerate(passing.parts):
            found += soft * _factor(passing.statistics[rank], whole)[:, None] - hits
        return loss, (found / len(hit)).reshape(shape)

    def finish(self) -> None:
        """Scale the gradient by 1 / microbatches and end all that is under way."""
        for microbatch in self._open:
            self.wait(microbatch)
        self._open.clear()
        if self.layer.weight.grad is not None:
            self.layer.weight.grad /= self._count
        self._wire.finish()

    def _mine(self, target: Tensor) -> tuple[Tensor, Tensor]:
        """For each token whether its target is in this shard, and where (else 0)."""
        rows = self.layer.weight.shape[0]
        local = target.flatten() - self.rank * rows
        mine = (local >= 0) & (local < rows)
        return mine, torch.where(mine, local, 0)

    def _whole(self, passing: Passing) -> Whole:
        """Largest logit, sum and logit of the target over all shards."""
        statistics = torch.stack(passing.statistics)
        largest = statistics[:, 0].max(0).values
        return largest, (statistics[:, 1] * (statistics[:, 0] - largest).exp()).sum(0), statistics[:, 2].sum(0)


def _factor(statistics: Tensor, whole: Whole) -> Tensor:
    """The factor from a shard's softmax, with these `statistics`, to the softmax over all shards."""
    largest, total, _ = whole
    own_largest, own_total, _ = statistics
    factor: Tensor = own_total * (own_largest - largest).exp() / total
    return factor


def _root(schedule: Schedule) -> int:
    homes = schedule.homes[-1]
    if len(homes) > 1:
        raise ScheduleError(
            f"stage {schedule.stages - 1} has copies on ranks {homes[0]} and {homes[1]}; a vocabulary in shards takes "
            "its input from one last stage, so choose a schedule without copies"
        )
    return homes[0]
