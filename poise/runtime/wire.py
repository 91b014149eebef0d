"""Tensors from rank to rank between two steps: without tags, so first in, first out between each two ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

Tensors = tuple[Tensor, ...]


@dataclass
class Pending:
    """A message under way: its buffers and what to wait for."""

    tensors: Tensors
    works: list[Any] = field(default_factory=list)

    def wait(self) -> Tensors:
        """The tensors, once they are there."""
        for work in self.works:
            work.wait()
        self.works.clear()
        return self.tensors


class Wire:
    """This rank's messages with the others of `group`; ranks are counted within the group."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device) -> None:
        self.group = group
        self.rank = group.rank()
        self.device = device
        self.globals = [dist.get_global_rank(group, rank) for rank in range(group.size())]
        self._leaving: list[Pending] = []

    def send(self, tensors: Tensors, rank: int) -> None:
        """Send tensors whose shapes the other rank knows."""
        for each in tensors:
            own = each.detach().contiguous()
            work = dist.isend(own, self.globals[rank], group=self.group)
            self._leaving.append(Pending((own,), [work]))

    def receive(self, like: list[Tensor], rank: int) -> Pending:
        """Begin to receive tensors that look `like` these."""
        buffers = tuple(torch.empty_like(each, device=self.device) for each in like)
        works = [dist.irecv(each, self.globals[rank], group=self.group) for each in buffers]
        return Pending(buffers, works)

    def finish(self) -> None:
        """Wait until everything that was sent has left."""
        while self._leaving:
            self._leaving.pop(0).wait()
