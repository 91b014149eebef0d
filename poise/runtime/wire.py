"""Tensors from rank to rank: without tags, so first in, first out between each two ranks.

Sending waits only for a receiver that is far behind; receiving begins where the schedule has it and waits where the
tensors are used. The receiver learns shapes from a header before the first message to each stage in a step, for all
microbatches of a step are equal.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from poise.core.errors import ScheduleError

Tensors = tuple[Tensor, ...]

Key = tuple[int, int]
"""A rank and the stage that receives."""

Form = tuple[tuple[torch.dtype, tuple[int, ...], bool], ...]
"""For each tensor its type, its shape, and whether it carries a gradient."""

_TYPES = [
    torch.float64, torch.float32, torch.bfloat16, torch.float16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
]  # fmt: skip

_HEADER = 64

_AHEAD = 8
"""Messages to one rank that may be under way; one more waits for the first to be received."""


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
        self._sent: dict[Key, Form] = {}
        self._known: dict[Key, Form] = {}
        self._leaving: list[deque[Pending]] = [deque() for _ in self.globals]

    def begin(self) -> None:
        """Forget the shapes of the step before."""
        self._sent.clear()
        self._known.clear()

    def send(self, tensors: Tensors, rank: int, stage: int) -> None:
        """Send outputs to `stage` on `rank`."""
        form = tuple((each.dtype, tuple(each.shape), each.requires_grad) for each in tensors)
        known = self._sent.setdefault((rank, stage), form)
        if known is form:
            self._post(_header(form, stage).to(self.device), rank)
        elif known != form:
            raise ScheduleError(
                f"what goes to stage {stage} is {_described(form)} for one microbatch and {_described(known)} for "
                "another; microbatches of a step must be alike, so pad them to one length"
            )
        self.send_gradients(tensors, rank)

    def send_gradients(self, tensors: Tensors, rank: int) -> None:
        """Send gradients, whose shapes are known to the other rank."""
        for each in tensors:
            self._post(each.detach().contiguous(), rank)

    def receive(self, rank: int, stage: int) -> Pending:
        """Begin to receive the inputs of `stage` from `rank`."""
        form = self._known.get((rank, stage))
        if form is None:
            header = torch.empty(_HEADER, dtype=torch.int64, device=self.device)
            dist.recv(header, self.globals[rank], group=self.group)
            form = self._known[rank, stage] = _read(header.tolist())
        buffers = tuple(torch.empty(shape, dtype=kind, device=self.device) for kind, shape, _ in form)
        pending = self._await(buffers, rank)
        for each, (_, _, carries) in zip(buffers, form, strict=True):
            each.requires_grad_(carries)
        return pending

    def receive_gradients(self, like: list[Tensor], rank: int) -> Pending:
        """Begin to receive the gradients of outputs that look `like` these."""
        return self._await(tuple(torch.empty_like(each, device=self.device) for each in like), rank)

    def finish(self) -> None:
        """Wait until everything that was sent has left."""
        for queue in self._leaving:
            while queue:
                queue.popleft().wait()

    def _post(self, tensor: Tensor, rank: int) -> None:
        work = dist.isend(tensor, self.globals[rank], group=self.group)
        queue = self._leaving[rank]
        queue.append(Pending((tensor,), [work]))
        while len(queue) > _AHEAD:
            queue.popleft().wait()

    def _await(self, buffers: Tensors, rank: int) -> Pending:
        works = [dist.irecv(each, self.globals[rank], group=self.group) for each in buffers]
        return Pending(buffers, works)


def _header(form: Form, stage: int) -> Tensor:
    """Count, then for each tensor type, gradient, dimensions and shape."""
    header = [len(form)]
    for kind, shape, carries in form:
        if kind not in _TYPES:
            raise ScheduleError(f"stage {stage} would receive {kind}, which is no type that is sent; use {_TYPES[0]}")
        header += [_TYPES.index(kind), int(carries), len(shape), *shape]
    if len(header) > _HEADER:
        raise ScheduleError(
            f"stage {stage} would receive {_described(form)}: too many tensors; hand on fewer, or stacked"
        )
    return torch.tensor(header + [0] * (_HEADER - len(header)))


def _read(header: list[int]) -> Form:
    form, at = [], 1
    for _ in range(header[0]):
        kind, carries, dimensions = header[at : at + 3]
        form.append((_TYPES[kind], tuple(header[at + 3 : at + 3 + dimensions]), bool(carries)))
        at += 3 + dimensions
    return tuple(form)


def _described(form: Form) -> str:
    return ", ".join(f"{str(kind).removeprefix('torch.')}{list(shape)}" for kind, shape, _ in form)
