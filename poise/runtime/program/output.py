"""The output layer in shards, one on each rank, with the loss: the passes S and T of Vocabulary Parallelism.

After Yeung et al., "Balancing Pipeline Parallelism with Vocabulary Parallelism" (MLSys 2025), algorithms 1 and 2. Each
shard normalises by its own largest logit and sum; the exchange between shards, three numbers per token, makes
this the softmax over all. With two barriers T makes each shard's part of the gradient of X, and of its weights, from
that. With one barrier S has made both products that the gradient of X consists of, so the last stage can go on at
once, and T, which makes the weight gradient alone, may run at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from poise.program import Task
from poise.runtime.program.handle import Handle, Payload
from poise.runtime.program.transport import Transport

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
    products: Tensor | None = None
    statistics: list[Tensor] = field(default_factory=list)
    """The same as `own`, of all shards."""
    parts: list[Tensor] = field(default_factory=list)
    """On the last stage: each shard's products for the gradient of X, or their sum."""


class OutputShard:
    """This rank's rows of the output layer: shard `number` (default: the rank). `root` is the last stage's rank."""

    def __init__(
        self, layer: nn.Linear, transport: Transport, root: int, barriers: int, number: int | None = None
    ) -> None:  # fmt: skip
        self.layer, self.transport, self.root, self.two = layer, transport, root, barriers == 2
        self.number = transport.rank if number is None else number
        self.begin()

    def begin(self) -> None:
        """Forget the step before."""
        self._open: dict[int, Passing] = {}
        self.layer.zero_grad(set_to_none=True)

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
        if not self.two:
            passing.products = torch.stack([passing.softmax @ weight, mine[:, None] * weight[local]])
        self._open[microbatch] = passing

    def summed(self, task: Task) -> Handle:
        """Begin what the barrier behind S or T sums over the shards."""
        passing = self._open[task.arg]
        if task.lane == "sum 2":
            return _Filled(self.transport.gather(task, (passing.parts[0],), self.root), passing, task)
        given = (passing.own,) if passing.products is None else (passing.own, passing.products)
        return _Filled(self.transport.gather(task, given, self.root, everywhere=1), passing, task)

    @torch.no_grad()
    def t(self, microbatch: int) -> None:
        """The gradient of the shard's weights; with two barriers its part of that of X as well."""
        passing = self._open[microbatch]
        mine, local = self._mine(passing.target)
        rows = passing.softmax * _factor(passing.statistics[self.number], _whole(passing))[:, None]
        rows[torch.arange(len(local)), local] -= mine.to(rows.dtype)
        rows /= len(local)
        weight = self.layer.weight
        gradient = rows.T @ passing.x
        weight.grad = gradient if weight.grad is None else weight.grad.add_(gradient)
        if self.two:
            passing.parts = [rows @ weight]

    def result(self, microbatch: int, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """On the last stage, behind the barrier: the loss, and the gradient of X."""
        passing = self._open[microbatch]
        largest, total, hit = whole = _whole(passing)
        loss = (total.log() + largest - hit).mean()
        if self.two:
            return loss, torch.stack(passing.parts).sum(0).reshape(shape)
        found = torch.zeros_like(passing.parts[0][0])
        for rank, (soft, hits) in enumerate(passing.parts):
            found += soft * _factor(passing.statistics[rank], whole)[:, None] - hits
        return loss, (found / len(hit)).reshape(shape)

    def _mine(self, target: Tensor) -> tuple[Tensor, Tensor]:
        """For each token whether its target is in this shard, and where (else 0)."""
        rows = self.layer.weight.shape[0]
        local = target.flatten() - self.number * rows
        mine = (local >= 0) & (local < rows)
        return mine, torch.where(mine, local, 0)


class _Filled:
    """A barrier: what all shards have brought is filled into the microbatch."""

    def __init__(self, handle: Handle, passing: Passing, task: Task) -> None:
        self._handle, self._passing, self._second, self.peer = handle, passing, task.lane == "sum 2", handle.peer

    def done(self) -> bool:
        return self._handle.done()

    def wait(self) -> Sequence[Payload]:
        (brought,) = self._handle.wait()
        if self._second:
            self._passing.parts = [each[0] for each in brought if each]
        else:
            self._passing.statistics = [each[0] for each in brought]
            if self._passing.products is not None:
                self._passing.parts = [each[1] for each in brought if len(each) > 1]
        return (None,)


def _whole(passing: Passing) -> Whole:
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
