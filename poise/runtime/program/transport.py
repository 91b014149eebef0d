"""How tensors get from rank to rank: the same calls in one process (`inproc`) and between processes (`distributed`)."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from typing import Protocol

from torch import Tensor

from poise.program import Task
from poise.runtime.program.handle import Handle, Payload

Tensors = tuple[Tensor, ...]


class Transport(Protocol):
    """The messages and collectives of one rank. What it receives is its own to change."""

    rank: int

    def begin(self) -> None:
        """A step begins: shapes may be others than in the last one."""
        ...

    @property
    def changed(self) -> Event:
        """Set whenever something has ended or arrived, from any thread."""
        ...

    def send(self, task: Task, tensors: Tensors) -> Sequence[Payload] | Handle:
        """Begin to send; the receiver learns shapes and which tensors carry gradients."""
        ...

    def receive(self, task: Task) -> Sequence[Payload] | Handle | None:
        """Begin to receive; None where it cannot be known yet what comes."""
        ...

    def all_reduce(self, task: Task, tensors: Sequence[Tensor]) -> Handle:
        """Begin to sum over the task's group, in place; what it writes says that it has ended."""
        ...

    def broadcast(self, task: Task, tensors: Tensors | None, root: int) -> Handle:
        """Begin to hand on what `root` has; writes it. Only the root gives tensors."""
        ...

    def gather(self, task: Task, tensors: Tensors, root: int, everywhere: int = 0) -> Handle:
        """Begin to gather at `root`; writes the list there. All members get the first `everywhere` tensors of each."""
        ...
