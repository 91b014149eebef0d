"""Work under way: a message, a collective, a copy. A lane whose task is under way waits for it; other lanes go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

Payload = Any
"""What a value holds while a Program runs: tensors, or whatever its kernels hand to each other."""


class Handle(Protocol):
    """Something that ends later."""

    @property
    def peer(self) -> int:
        """A rank that it waits for, or −1."""
        ...

    def done(self) -> bool:
        """Whether it has ended; never waits."""
        ...

    def wait(self) -> Sequence[Payload]:
        """What it writes, once it has ended."""
        ...


@dataclass
class Works:
    """Operations of torch.distributed; `finish` makes what is written when all have ended."""

    works: list[Any]
    finish: Callable[[], Sequence[Payload]]
    peer: int = -1

    def done(self) -> bool:
        """Whether all have ended."""
        return all(work.is_completed() for work in self.works)

    def wait(self) -> Sequence[Payload]:
        """What is written."""
        for work in self.works:
            work.wait()
        return self.finish()


@dataclass
class InThread:
    """A call in a thread of its own."""

    future: Future[Sequence[Payload]]
    peer: int = -1

    def done(self) -> bool:
        """Whether it has returned."""
        return self.future.done()

    def wait(self) -> Sequence[Payload]:
        """What it returned."""
        return self.future.result()


@dataclass
class Later:
    """A value that is on its way: its lane goes on, and the task that reads it waits."""

    handle: Handle

    def wait(self) -> Payload:
        """The value."""
        return self.handle.wait()[0]


@dataclass
class Chained:
    """One handle behind another, as data behind the header that says its shape."""

    first: Handle
    then: Callable[[Sequence[Payload]], Handle]
    second: Handle | None = None

    @property
    def peer(self) -> int:
        """That of the one under way."""
        return (self.second or self.first).peer

    def done(self) -> bool:
        """Whether both have ended; begins the second as soon as the first has."""
        if self.second is None:
            if not self.first.done():
                return False
            self.second = self.then(self.first.wait())
        return self.second.done()

    def wait(self) -> Sequence[Payload]:
        """What the second writes."""
        if self.second is None:
            self.second = self.then(self.first.wait())
        return self.second.wait()
