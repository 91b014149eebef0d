"""What operations hand to each other: outputs and gradients, to a stage on this rank or on another one."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from poise.pipeline.op import Kind
from poise.runtime.routes import Place, Task
from poise.runtime.wire import Pending, Tensors, Wire

Key = tuple[bool, int, int | None]
"""Forward or not, stage, microbatch."""


class Exchange:
    """Results received or to be sent. `wait` is called with the rank that is waited for, `ready` when that ends."""

    def __init__(self, rank: int, wire: Wire, wait: Callable[[int], None], ready: Callable[[], None]) -> None:
        self._rank, self._wire = rank, wire
        self._wait, self._ready = wait, ready
        self._arrived: dict[Key, Tensors | Pending] = {}
        self._leaving: dict[Key, Tensors] = {}

    def give(self, forward: bool, task: Task, tensors: Tensors) -> None:
        """Lay a result where the next operation or the send finds it."""
        op, target = task.op, task.target
        if target is not None and target.rank == self._rank:
            self._arrived[forward, target.stage, op.microbatch] = tensors
        elif target is not None:
            self._leaving[forward, op.stage, op.microbatch] = tensors

    def take(self, forward: bool, task: Task) -> Tensors:
        """What arrived for an operation, from another rank or from here."""
        found = self._arrived.pop((forward, task.op.stage, task.op.microbatch))
        if not isinstance(found, Pending):
            return found
        self._wait(_known(task.source).rank)
        tensors = found.wait()
        self._ready()
        return tensors

    def send(self, task: Task) -> None:
        """Send what was laid here."""
        forward = task.op.kind is Kind.SEND_F
        tensors = self._leaving.pop((forward, task.op.stage, task.op.microbatch))
        place = _known(task.target)
        self._wait(place.rank)
        if forward:
            self._wire.send(tensors, place.rank, place.stage)
        else:
            self._wire.send_gradients(tensors, place.rank)

    def receive(self, task: Task, like: list[Tensor] | None) -> None:
        """Begin to receive inputs, or gradients of outputs that look `like` these."""
        op, place = task.op, _known(task.source)
        self._wait(place.rank)
        wire, key = self._wire, (like is None, op.stage, op.microbatch)
        self._arrived[key] = (
            wire.receive(place.rank, op.stage) if like is None else wire.receive_gradients(like, place.rank)
        )


def _known(place: Place | None) -> Place:
    assert place is not None
    return place
