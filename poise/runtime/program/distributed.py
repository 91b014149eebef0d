"""Ranks as processes of torch.distributed, over gloo or nccl.

Messages have no tags, so they are first in, first out between each two ranks. The receiver learns shapes from a header
before the first message of each stage in a step, for all microbatches of a step are equal; gradients look like what was
sent the other way.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from threading import Event
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from poise.core.errors import ScheduleError
from poise.program import Program, Task
from poise.program.task import base
from poise.runtime.program.handle import Chained, Handle, Later, Payload, Waiting, Works
from poise.runtime.program.transport import Tensors
from poise.runtime.subgroup import subgroup

Form = tuple[tuple[torch.dtype, tuple[int, ...], bool], ...]
"""For each tensor its type, its shape, and whether it carries a gradient."""

_TYPES = [
    torch.float64, torch.float32, torch.bfloat16, torch.float16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
]  # fmt: skip

_HEADER = 64


class Distributed:
    """The transport of this process; ranks are counted within `group`. Each lane of collectives has a group.

    Collectives that reach beyond `group` are those of `data`, this rank's copies in all replicas.
    """

    def __init__(
        self, program: Program, group: dist.ProcessGroup, device: torch.device, data: dist.ProcessGroup | None = None
    ) -> None:  # fmt: skip
        self.group, self.rank, self.device, self.data = group, group.rank(), device, data
        self.globals = [dist.get_global_rank(group, rank) for rank in range(group.size())]
        self._groups = self._make_groups(program)
        self._sent: dict[tuple[int, int], Form] = {}
        self._known: dict[tuple[int, int], Form] = {}
        self._like: dict[tuple[int, Any], list[Tensor]] = {}
        self._heading: set[int] = set()
        """Ranks of whose next message the shape is not known yet."""
        self.changed = Event()
        self._threads: dict[str, Waiting] = {}
        weakref.finalize(self, _stop, self._threads)

    def _make_groups(self, program: Program) -> dict[tuple[str, tuple[int, ...]], dist.ProcessGroup]:
        """For each lane of collectives and its members; all processes of a pipeline make them in one order."""
        joint = (task for task in program.tasks() if task.group and task.kind not in ("send", "recv"))
        found = {}
        for lane, members in sorted({(task.lane, task.group) for task in joint}):
            if members[-1] >= len(self.globals):
                if self.data is not None and self.rank in members:
                    found[lane, members] = self.data
                continue
            made = subgroup(lane, [self.globals[rank] for rank in members], self.group, self.device)
            if made is not None:
                found[lane, members] = made
        return found

    def begin(self) -> None:
        """Forget the shapes of the step before."""
        self._sent.clear()
        self._known.clear()
        self._like.clear()

    def finish(self) -> None:
        """Wait until everything that was sent has left."""
        for thread in self._threads.values():
            thread.finish()

    def send(self, task: Task, tensors: Tensors) -> Sequence[Payload]:
        """Post a message, whose tensors live until it has left."""
        peer, (stage, batch) = task.group[1], task.arg
        if base(task.reads[0]).startswith("x"):
            form = tuple((each.dtype, tuple(each.shape), each.requires_grad) for each in tensors)
            known = self._sent.setdefault((peer, stage), form)
            if known is form:
                self._post(_header(form, stage).to(self.device), peer)
            elif known != form:
                raise ScheduleError(
                    f"what stage {stage} hands on is {_described(form)} for one microbatch and {_described(known)} for "
                    "another; microbatches of a step must be alike, so pad them to one length"
                )
            carrying = [torch.empty_like(each, device="meta") for each in tensors if each.requires_grad]
            self._like[peer, (stage, batch)] = carrying
        for each in tensors:
            self._post(each.detach().contiguous(), peer)
        return ()

    def receive(self, task: Task) -> Sequence[Payload] | None:
        """Post the receipt of a message."""
        peer, (stage, batch) = task.group[0], task.arg
        if peer in self._heading:  # the data behind that header come first
            return None
        if not base(task.writes[0]).startswith("x"):
            like = self._like.pop((peer, (stage, batch)), None)
            if like is None:
                return None
            return (Later(self._await(tuple((each.dtype, tuple(each.shape), False) for each in like), peer)),)
        form = self._known.get((peer, stage))
        if form is not None:
            return (Later(self._await(form, peer)),)
        header = torch.empty(_HEADER, dtype=torch.int64, device=self.device)
        work = dist.irecv(header, self.globals[peer], group=self.group)
        self._heading.add(peer)

        def read(made: Sequence[Payload]) -> Handle:
            self._heading.discard(peer)
            form = self._known[peer, stage] = _read(header.tolist())
            return self._await(form, peer)

        header_works = self._waited(f"from {peer}", Works([work], lambda: (), peer))
        return (Later(Chained(header_works, read)),)

    def all_reduce(self, task: Task, tensors: Sequence[Tensor]) -> Handle:
        """Sum in place, as one buffer for each type."""
        group = self._groups[task.lane, task.group]
        buffers = [(rows, torch.cat([each.flatten() for each in rows])) for rows in _by_type(tensors)]
        works = [dist.all_reduce(flat, group=group, async_op=True) for _, flat in buffers]

        def back() -> Sequence[Payload]:
            for rows, flat in buffers:
                for each, part in zip(rows, torch.split(flat, [each.numel() for each in rows]), strict=True):
                    each.copy_(part.view_as(each))
            return (None,) * len(task.writes)

        return self._waited(task.lane, Works(works, back, self._other(task)))

    def gather(self, task: Task, tensors: Tensors, root: int, everywhere: int = 0) -> Handle:
        """All members' tensors at the root; the first `everywhere` at all."""
        group, here = self._groups[task.lane, task.group], self.rank == root
        found = [[torch.empty_like(each) for _ in task.group] for each in tensors[:everywhere]]
        pairs = zip(found, tensors, strict=False)
        works = [dist.all_gather(rows, each.contiguous(), group=group, async_op=True) for rows, each in pairs]
        for each in tensors[everywhere:]:
            rows = [torch.empty_like(each) for _ in task.group] if here else None
            works.append(dist.gather(each.contiguous(), rows, self.globals[root], group=group, async_op=True))
            if rows is not None:
                found.append(rows)
        members = len(task.group)
        made = Works(works, lambda: ([tuple(row[at] for row in found) for at in range(members)],), self._other(task))
        return self._waited(task.lane, made)

    def broadcast(self, task: Task, tensors: Tensors | None, root: int) -> Handle:
        """What the root has. Its shape comes first."""
        group, source = self._groups[task.lane, task.group], self.globals[root]
        if tensors is not None:
            form = tuple((each.dtype, tuple(each.shape), False) for each in tensors)
            sent = [_header(form, 0).to(self.device), *(each.detach().contiguous() for each in tensors)]
            works = [dist.broadcast(each, source, group=group, async_op=True) for each in sent]
            return self._waited(task.lane, Works(works, lambda: (tuple(each.detach() for each in tensors),), root))
        header = torch.empty(_HEADER, dtype=torch.int64, device=self.device)
        first = dist.broadcast(header, source, group=group, async_op=True)

        def read(made: Sequence[Payload]) -> Handle:
            buffers = _buffers(_read(header.tolist()), self.device)
            works = [dist.broadcast(each, source, group=group, async_op=True) for each in buffers]
            return self._waited(task.lane, Works(works, lambda: (buffers,), root))

        return Chained(self._waited(task.lane, Works([first], lambda: (), root)), read)

    def _post(self, tensor: Tensor, peer: int) -> None:
        work = dist.isend(tensor, self.globals[peer], group=self.group)
        self._waited(f"to {peer}", Works([work], lambda: (tensor,), peer))  # the tensor lives until it has left

    def _await(self, form: Form, peer: int) -> Handle:
        buffers = _buffers(form, self.device)
        works = [dist.irecv(each, self.globals[peer], group=self.group) for each in buffers]

        def arrived() -> Sequence[Payload]:
            return (tuple(each.requires_grad_(carries) for each, (_, _, carries) in zip(buffers, form, strict=True)),)

        return self._waited(f"from {peer}", Works(works, arrived, peer))

    def _waited(self, name: str, works: Works) -> Works:
        """Have a thread wait for them: one for each lane."""
        works.streams = self.device.type == "cuda"
        if name not in self._threads:
            self._threads[name] = Waiting(name, self.changed)
        return self._threads[name].put(works)

    def _other(self, task: Task) -> int:
        return next((rank for rank in task.group if rank != self.rank), -1)


def _stop(threads: dict[str, Waiting]) -> None:
    for thread in threads.values():
        thread.stop()


def _by_type(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    found: dict[torch.dtype, list[Tensor]] = {}
    for each in tensors:
        found.setdefault(each.dtype, []).append(each)
    return list(found.values())


def _buffers(form: Form, device: torch.device) -> Tensors:
    return tuple(torch.empty(shape, dtype=kind, device=device) for kind, shape, _ in form)


def _header(form: Form, stage: int) -> Tensor:
    """Count, then for each tensor type, gradient, dimensions and shape."""
    header = [len(form)]
    for kind, shape, carries in form:
        if kind not in _TYPES:
            raise ScheduleError(f"stage {stage} hands on {kind}, which cannot be sent; use {_TYPES[0]}")
        header += [_TYPES.index(kind), int(carries), len(shape), *shape]
    if len(header) > _HEADER:
        raise ScheduleError(f"stage {stage} hands on {_described(form)}: too many tensors; hand on fewer, or stacked")
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
